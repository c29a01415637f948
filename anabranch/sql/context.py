"""What one translation carries along: the query's text, fresh names, Spark's types, and what was found on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.algebra.expression import Equality, Expression, Part, Ref
from anabranch.algebra.relation import RESERVED_PREFIX, Column, Output, Project, Relation
from anabranch.sql.analyzer import Analyzer, TableLookup
from anabranch.sql.query_syntax import Query
from anabranch.sql.refused import Refusal, refused
from anabranch.sql.scope import Field, Scope
from anabranch.sql.tokens import Source


@dataclass(frozen=True, slots=True)
class Rows:
    """A relation and the names its columns are visible under."""

    relation: Relation
    fields: tuple[Field, ...]


@dataclass
class Findings:
    """What a translation has found out, shared by the query and the views inlined into it."""

    names: set[str] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    time_functions: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Context:
    """One query text being translated. `ctes` holds the named queries visible here, by lower-case name."""

    source: Source
    analyzer: Analyzer
    tables: TableLookup
    findings: Findings
    translator: Callable[[Context, Query, Scope | None], Rows]
    ctes: Mapping[str, Rows] = field(default_factory=dict)
    views: tuple[str, ...] = ()

    def rows_of(self, query: Query, parent: Scope | None) -> Rows:
        """Translate a nested query; `parent` is the row it may refer to."""
        return self.translator(self, query, parent)

    def with_cte(self, name: str, rows: Rows) -> Context:
        return replace(self, ctes={**self.ctes, name.lower(): rows})

    def fresh(self, wanted: str, type: str) -> Column:
        """A new column; its name is like the wanted one, and unique in the whole query."""
        base = wanted or "column"
        if base.lower().startswith(RESERVED_PREFIX):
            base = "column"
        name, number = base, 1
        while name.lower() in self.findings.names:
            number += 1
            name = f"{base}_{number}"
        self.findings.names.add(name.lower())
        self.findings.types[name] = type
        return Column(name, type)

    def note(self, text: str) -> None:
        if text not in self.findings.notes:
            self.findings.notes.append(text)

    def refuse(self, code: str, detail: str = "", place: int | None = None) -> None:
        """Remember a refusal and go on, so that all of them are reported."""
        found = refused(code, detail, "" if place is None else self.source.place(place)).refusal
        if found not in self.findings.refusals:
            self.findings.refusals.append(found)

    def typed(self, drafts: Sequence[Expression]) -> list[Expression]:
        """The expressions with their Spark types, from one analysis."""
        wanted: dict[tuple[Part, ...], Expression] = {}
        for draft in drafts:
            for each in _with_sides(draft):
                if not each.type:
                    wanted.setdefault(each.parts, each)
        unknown = [each for each in wanted.values() if not each.is_column]
        holes = sorted({part.name for each in unknown for part in each.parts if not isinstance(part, str)})
        columns = [Column(name, self.findings.types[name]) for name in holes]
        types = dict(zip((each.parts for each in unknown), self.analyzer.types(unknown, columns), strict=True))
        return [self._with_types(draft, types) for draft in drafts]

    def _with_types(self, draft: Expression, types: Mapping[tuple[Part, ...], str]) -> Expression:
        if draft.type and draft.equality is None:
            return draft
        type = draft.type or types.get(draft.parts)
        if type is None:
            (hole,) = draft.parts
            assert isinstance(hole, Ref)
            type = self.findings.types[hole.name]
        equality = draft.equality
        if equality is not None:
            left, right = self._with_types(equality.left, types), self._with_types(equality.right, types)
            equality = Equality(left, right, equality.null_safe)
        return replace(draft, type=type, equality=equality)

    def extended(self, relation: Relation, values: Iterable[tuple[str, Expression]]) -> tuple[Relation, list[Column]]:
        """The relation with a column for each value, computed below; a bare column is used as it is."""
        pairs = list(values)
        typed = self.typed([value for _, value in pairs])
        known: dict[tuple[Part, ...], Column] = {}
        added: list[Output] = []
        columns: list[Column] = []
        for (name, _), value in zip(pairs, typed, strict=True):
            if value.is_column and next(iter(value.columns)) in relation.names:
                columns.append(relation.column(next(iter(value.columns))))
                continue
            if value.parts not in known:
                column = self.fresh(name, value.type)
                known[value.parts] = column
                added.append(Output(column.name, value))
            columns.append(known[value.parts])
        if added:
            kept = tuple(Output(each.name, each.value) for each in relation.columns)
            relation = Project(relation, (*kept, *added))
        return relation, columns

    def narrowed(self, relation: Relation, names: Iterable[str]) -> Relation:
        """Only these columns, in the relation's order."""
        wanted = set(names)
        if wanted >= set(relation.names):
            return relation
        return Project(
            relation, tuple(Output(each.name, each.value) for each in relation.columns if each.name in wanted)
        )

    def renamed(self, rows: Rows, qualifier: tuple[str, ...], names: Sequence[str] = ()) -> Rows:
        """The same rows under new internal names, for one more use of them."""
        visible = [each for each in rows.fields if not each.hidden]
        outputs: list[Output] = []
        fields: list[Field] = []
        for place, each in enumerate(visible):
            name = names[place] if place < len(names) else each.name
            column = self.fresh(name, each.column.type)
            outputs.append(Output(column.name, each.column.value))
            fields.append(Field(name, column, qualifier))
        return Rows(Project(rows.relation, tuple(outputs)), tuple(fields))


def _with_sides(draft: Expression) -> Iterable[Expression]:
    yield draft
    if draft.equality is not None:
        yield from _with_sides(draft.equality.left)
        yield from _with_sides(draft.equality.right)
