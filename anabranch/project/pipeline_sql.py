"""The SQL of Spark Declarative Pipelines: CREATE MATERIALIZED VIEW and CREATE TEMPORARY VIEW."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.errors import QueryError
from anabranch.sql.statement_grammar import DefinitionGrammar
from anabranch.sql.tokens import Kind, tokenize


@dataclass(frozen=True)
class PipelineStatement:
    """What a statement defines; `left_aside` names clauses that a lake decides itself."""

    name: str
    query: str
    is_view: bool
    left_aside: tuple[str, ...] = ()


class _Grammar(DefinitionGrammar):
    """The two statements that can be taken over."""

    def pipeline_statement(self) -> PipelineStatement | None:
        if not self.accept("CREATE"):
            return None
        self.accept("OR", "REPLACE")
        if self.accept("MATERIALIZED", "VIEW"):
            return self._view(is_view=False)
        if self.accept("TEMPORARY", "VIEW") or self.accept("TEMP", "VIEW"):
            return self._view(is_view=True)
        return None

    def _view(self, is_view: bool) -> PipelineStatement:
        self.accept("IF", "NOT", "EXISTS")
        name = ".".join(self.names())
        if self.at("("):
            self.fail("the columns come from the query; leave the list out, or rename them with AS in the query")
        aside = []
        while not self.accept("AS"):
            aside.append(self._table_option())
        return PipelineStatement(name, self.rest(), is_view, tuple(aside))


def pipeline_statement(text: str) -> PipelineStatement:
    """One statement of a pipeline's SQL file; what cannot be taken over is refused by its first words."""
    grammar = _Grammar(tokenize(text))
    found = grammar.pipeline_statement()
    if found is None:
        words = [token.text for token in tokenize(text).tokens if token.kind is Kind.WORD][:3]
        raise QueryError(
            "PIPELINE_NOT_SUPPORTED",
            f"{' '.join(words).upper()} cannot be taken over",
            "CREATE MATERIALIZED VIEW and CREATE TEMPORARY VIEW are; streaming tables and flows are not",
            "a table that others write to is a source of the lake: make it with CREATE TABLE, outside of the pipeline",
        )
    return found
