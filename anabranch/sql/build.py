"""Syntax -> expression: the user's text with holes where it reads columns.

a.amount * (1 - discount)   over columns a.amount -> amount_2, discount -> discount
= [Ref(amount_2), " * (1 - ", Ref(discount), ")"]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from anabranch.algebra.expression import Equality, Expression, Outer, Part, Ref, negated
from anabranch.algebra.relation import Column
from anabranch.sql import determinism
from anabranch.sql.context import Context
from anabranch.sql.refused import RefusedError, refused
from anabranch.sql.scope import AmbiguousNameError, Found, Scope
from anabranch.sql.stars import spelled_out
from anabranch.sql.structs import field_name, text_literal
from anabranch.sql.syntax import Aliased, Call, Equal, Expr, Lambda, Name, Nested, Opaque, Paren, Row, Star
from anabranch.sql.syntax_walk import calls_in, is_aggregate, strip, strip_nots

Key = tuple[Part, ...]
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)""", re.DOTALL)
_WORD = re.compile(r"\w")


@dataclass
class Builder:
    """Makes drafts (expressions without a type) of syntax.

    `values` are nodes already computed as columns (aggregates, windows, subqueries), `bare` the subqueries as they
    stand in a conjunct; `aliases` the SELECT list's names,
    used after the columns of FROM, or before them where `aliases_first`; `keys` the grouping expressions that a
    query sees after GROUP BY, found by building the node over the rows before it (`before`). An aggregate that is
    no column yet is built only where `aggregating`; anywhere else it belongs to an enclosing query.
    """

    context: Context
    scope: Scope
    values: dict[Expr, Expression] = field(default_factory=dict)
    bare: dict[Nested, Expression] = field(default_factory=dict)
    aliases: Mapping[str, Expr | Expression] = field(default_factory=dict)
    aliases_first: bool = False
    keys: Mapping[Key, Column] = field(default_factory=dict)
    before: Builder | None = None
    aggregating: bool = False

    def draft(self, node: Expr) -> Expression:
        """The node as an expression without a type."""
        node = strip(node)
        value = self.values.get(node)
        if value is not None:
            return value
        alias = self.alias_of(node)
        if alias is not None:
            return alias if isinstance(alias, Expression) else self._without_preference().draft(alias)
        parts = joined(self._parts(node, frozenset()))
        type = ""
        if len(parts) == 1 and isinstance(parts[0], Ref | Outer):
            type = self.context.findings.types[parts[0].name]
        return Expression(parts, type, self._deterministic(node))

    def predicate(self, node: Expr) -> Expression:
        """A conjunct as a draft: an equality knows its sides, a negated subquery is `NOT column`."""
        node, negative = strip_nots(node)
        if isinstance(node, Nested) and node in self.bare:
            value = self.bare[node]
            return negated(value) if negative else value
        built = replace(self.draft(node), type="boolean")
        if isinstance(node, Equal):
            built = replace(built, equality=Equality(self.draft(node.left), self.draft(node.right), node.null_safe))
        return built

    def predicates(self, nodes: Iterable[Expr]) -> tuple[Expression, ...]:
        """Conjuncts, with types."""
        return tuple(self.context.typed([self.predicate(each) for each in nodes]))

    def span(self, node: Expr, start: int, end: int) -> list[Part]:
        """A range of the node's tokens, its children filled in."""
        return list(self._range(node, start, end, frozenset()))

    def _parts(self, node: Expr, bound: frozenset[str]) -> list[Part]:
        value = self.values.get(node)
        if value is not None:
            return wrapped(value)
        key = self._key(node) if self.keys and not bound and self.alias_of(node) is None else None
        if key is not None:
            return [Ref(key.name)]
        match node:
            case Name():
                return self._name(node, bound)
            case Lambda():
                inner = bound | {each.lower() for each in node.parameters}
                return list(self._range(node, node.start, node.end, inner))
            case Star():
                return self._star(node)
            case Paren(inner=Star() as star):
                return self._star(star)
            case Nested():
                raise refused("EXPRESSION_NOT_UNDERSTOOD", "subquery", self.context.source.place(node.start))
            case Call() if is_aggregate(node) and not self.aggregating:
                outside = self.scope.computed_outside(node)
                if outside is not None:
                    return [Outer(name) for name in outside.columns]
                raise refused("EXPRESSION_NOT_UNDERSTOOD", node.function, self.context.source.place(node.start))
            case Opaque():
                self._clock_literal(node)
            case Row():
                return self._struct(node.items, bound)
            case Call() if node.function == "struct":
                return self._struct(node.arguments, bound)
            case Call() if node.function == "arrays_zip":
                return self._zip(node.arguments, bound)
            case Call() if node.function == "window_time" and len(node.arguments) == 1:
                return ["((", *self._parts(node.arguments[0], bound), ").end - INTERVAL '0.000001' SECOND)"]
        return list(self._range(node, node.start, node.end, bound))

    def _struct(self, items: tuple[Expr, ...], bound: frozenset[str]) -> list[Part]:
        """named_struct, with the names that Spark reads off the text."""
        fields = self._named(items, bound)
        pairs = (
            (f"{text_literal(name or f'col{place}')}, ", *parts) for place, (name, parts) in enumerate(fields, start=1)
        )
        return ["named_struct(", *separated(pairs), ")"]

    def _zip(self, items: tuple[Expr, ...], bound: frozenset[str]) -> list[Part]:
        """arrays_zip of what has no names, and the fields named afterwards."""
        fields = self._named(items, bound)
        zipped = separated(("coalesce(", *parts, ")") for _, parts in fields)
        names = (f"{text_literal(name or str(place))}, __ab_zip.`{place}`" for place, (name, _) in enumerate(fields))
        return ["transform(arrays_zip(", *zipped, f"), __ab_zip -> named_struct({', '.join(names)}))"]

    def _named(self, items: tuple[Expr, ...], bound: frozenset[str]) -> list[tuple[str | None, list[Part]]]:
        """What is put together, and what Spark calls it."""
        found: list[tuple[str | None, list[Part]]] = []
        for each in items:
            inner = strip(each)
            if isinstance(inner, Star):
                found += [(name, list(value.parts)) for name, value in spelled_out(self.context, self.scope, inner)]
            else:
                value = inner.value if isinstance(inner, Aliased) else each
                found.append((field_name(each, self.context.source), self._parts(value, bound)))
        return found

    def _range(self, node: Expr, start: int, end: int, bound: frozenset[str]) -> Iterator[Part]:
        source = self.context.source
        index = start
        children = sorted((each for each in node.children if start <= each.start < end), key=lambda each: each.start)
        for child in [*children, None]:
            stop = end if child is None else child.start
            while index < stop:
                if index > start and source.gap_before(index):
                    yield " "
                yield source.slice(index, index + 1)
                index += 1
            if child is not None:
                if index > start and source.gap_before(index):
                    yield " "
                yield from ["*"] if counts_rows(node) and isinstance(child, Star) else self._parts(child, bound)
                index = child.end

    def alias_of(self, node: Expr) -> Expr | Expression | None:
        """What a bare name means where it is an alias of the SELECT list and no column."""
        if not isinstance(node, Name) or len(node.parts) > 1:
            return None
        alias = self._visible_alias(node)
        if alias is None or (not self.aliases_first and self._find(node) is not None):
            return None
        return alias

    def _visible_alias(self, node: Name) -> Expr | Expression | None:
        """The item of the SELECT list with this name; an item sees only those before it."""
        alias = self.aliases.get(node.parts[0].lower())
        return None if isinstance(alias, Expr) and alias.end > node.start else alias

    def _without_preference(self) -> Builder:
        return replace(self, aliases_first=False) if self.aliases_first else self

    def _name(self, node: Name, bound: frozenset[str]) -> list[Part]:
        if node.parts[0].lower() in bound:
            return [self.context.source.slice(node.start, node.end)]
        alias = self._visible_alias(node)
        if alias is not None and self.aliases_first:
            return self._alias(node, alias)
        found = self._find(node)
        if found is not None:
            return self._column(node, found)
        if alias is not None:
            return self._alias(node, alias)
        if self.before is not None and self.before.scope.find(node.parts) is not None:
            raise refused("EXPRESSION_NOT_UNDERSTOOD", f"{'.'.join(node.parts)} is not grouped by")
        found = self.scope.find_outer(node.parts)
        if found is not None:
            return self._column(node, found)
        if len(node.parts) == 1 and node.parts[0].lower() in determinism.WITHOUT_PARENTHESES:
            self._look_at_function(node.parts[0].lower(), node.start, 0)
            return [node.parts[0]]
        raise refused("NAME_NOT_UNDERSTOOD", ".".join(node.parts), self.context.source.place(node.start))

    def _find(self, node: Name) -> Found | None:
        try:
            return self.scope.find(node.parts)
        except AmbiguousNameError:
            raise refused("NAME_NOT_UNDERSTOOD", f"{'.'.join(node.parts)} is ambiguous") from None

    def _column(self, node: Name, found: Found) -> list[Part]:
        hole: Part = Outer(found.column.name) if found.outer else Ref(found.column.name)
        if not found.rest:
            return [hole]
        return [hole, self.context.source.slice(node.end - 2 * len(found.rest), node.end)]

    def _alias(self, node: Name, alias: Expr | Expression) -> list[Part]:
        rest = len(node.parts) - 1
        value = wrapped(alias) if isinstance(alias, Expression) else self._alias_parts(alias)
        return [*value, self.context.source.slice(node.end - 2 * rest, node.end)] if rest else value

    def _alias_parts(self, alias: Expr) -> list[Part]:
        return wrapped(self._without_preference().draft(alias))

    def _star(self, node: Star) -> list[Part]:
        """Inside a call `struct(t.*)` becomes its columns; `count(*)` is seen to before."""
        return list(separated(value.parts for _, value in spelled_out(self.context, self.scope, node)))

    def arguments(self, call: Call) -> list[Expression]:
        """The call's arguments as drafts; a star is all its columns."""
        found: list[Expression] = []
        for each in () if counts_rows(call) else call.arguments:
            star = strip(each)
            if isinstance(star, Star):
                found += [value for _, value in spelled_out(self.context, self.scope, star)]
            else:
                found.append(self.draft(each))
        return found

    def is_known(self, node: Expr) -> bool:
        """Whether the node is a column already: computed below, or grouped by."""
        return node in self.values or (bool(self.keys) and self._key(node) is not None)

    def _key(self, node: Expr) -> Column | None:
        if self.before is None:
            return None
        try:
            draft = self.before.draft(node)
        except RefusedError:
            return None
        return self.keys.get(canonical(draft))

    def _deterministic(self, node: Expr) -> bool:
        result = True
        for each in calls_in(node):
            result = self._look_at_function(each.function, each.start, len(each.arguments)) and result
        return result

    def _look_at_function(self, function: str, place: int, arguments: int) -> bool:
        """Whether the function is deterministic; remember what explain and the engine must know of it."""
        self.context.findings.functions.add(function)
        if function in determinism.TIME or (function in determinism.TIME_WITHOUT_ARGUMENTS and not arguments):
            self.context.findings.time_functions.add(function)
        if function in determinism.NONDETERMINISTIC:
            self.context.refuse("NONDETERMINISTIC_FUNCTION", function, place)
            return False
        return True

    def _clock_literal(self, node: Opaque) -> None:
        if node.end == node.start + 2 and not node.parts:
            word = self.context.source.tokens[node.start + 1].text.strip().lower()
            if word in determinism.CLOCK_WORDS:
                self.context.findings.time_functions.add(word)


def counts_rows(node: Expr) -> bool:
    """The star of count(*) is no list of columns; that of count(DISTINCT *) is."""
    if not isinstance(node, Call) or node.function != "count" or node.distinct or len(node.arguments) > 1:
        return False
    return any(isinstance(each, Star) and not each.qualifier and not each.excluded for each in node.arguments)


def separated(items: Iterable[Iterable[Part]]) -> Iterator[Part]:
    """The items with commas between them."""
    for number, item in enumerate(items):
        if number:
            yield ", "
        yield from item


def wrapped(value: Expression) -> list[Part]:
    """The parts of an expression as an operand: in parentheses unless it is one piece."""
    if len(value.parts) == 1:
        return list(value.parts)
    return ["(", *value.parts, ")"]


def canonical(value: Expression) -> Key:
    """Equal for expressions that differ only in case and white space."""
    parts: list[Part] = []
    for part in value.parts:
        parts.append(canonical_text(part) if isinstance(part, str) else part)
    return joined(parts)


def canonical_text(text: str) -> str:
    """Without differences in case and white space."""
    pieces = _QUOTED.split(text)
    for place in range(0, len(pieces), 2):
        pieces[place] = re.sub(r"\s*(\W)\s*", r"\1", re.sub(r"\s+", " ", pieces[place])).lower()
    return "".join(pieces)


def joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Neighbouring pieces of text become one; a word and a column that stood apart do so still."""
    result: list[Part] = []
    for part in parts:
        before = result[-1] if result else ""
        if isinstance(part, str) and isinstance(before, str) and result:
            result[-1] = before + part
        elif part != "":
            if isinstance(part, str) and _WORD.match(part[0]) and result:
                part = " " + part
            elif not isinstance(part, str) and isinstance(before, str) and before and _WORD.match(before[-1]):
                result[-1] = before + " "
            result.append(part)
    return tuple(result)
