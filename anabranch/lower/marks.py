"""EXISTS and IN anywhere else (in SELECT, under OR, inside CASE): their value as a column.

    EXISTS inner  =  a mark, put on the rows of L by a left join with the distinct keys of inner
    x IN inner    =  true   if the left join with the distinct (key, y) of inner on x = y finds a partner
                     false  else if inner has no row for the key
                     NULL   else if x is NULL, or some y is
                     false  else

Keys are the inner sides of the correlated equalities. Where there are other conditions, or several columns, or types
that do not compare one to one, the value is worked out per distinct enclosing row instead:
    x IN inner    =  max(x = y) over the rows for which coalesce(x = y, true), false if there is none
"""

from __future__ import annotations

from anabranch.algebra.expression import Expression, equals, expression
from anabranch.algebra.relation import (
    Aggregate,
    Apply,
    ApplyKind,
    Distinct,
    Join,
    JoinKind,
    Output,
    Project,
    Relation,
)
from anabranch.lower.attach import Attached, attach, bound_columns
from anabranch.lower.build import aggregation, count_rows, extended, passing, truth
from anabranch.lower.domain import Domain, domain_of
from anabranch.lower.keys import Key, compares_one_to_one, conditions_on, with_key_columns
from anabranch.lower.membership import all_of, existence, without_distinct
from anabranch.lower.names import FreshNames


def marked(apply: Apply, child: Relation, inner: Relation, names: FreshNames) -> Relation:
    """`child` with the value of EXISTS or IN as one more column."""
    if apply.kind is ApplyKind.EXISTS:
        return _exists(apply, child, inner, names)
    attached = attach(child, without_distinct(inner), names)
    simple = len(apply.probe) == 1 and compares_one_to_one(apply.probe[0].type, inner.columns[0].type)
    if simple and attached.keys is not None:
        return _in_by_keys(apply, child, attached, inner.names[0], attached.keys, names)
    return _in_by_domain(apply, child, inner, attached, names)


def _exists(apply: Apply, child: Relation, inner: Relation, names: FreshNames) -> Relation:
    essential = existence(inner)
    if essential is None:
        return extended(child, truth(apply.output.name))
    attached = attach(child, essential, names)
    found = names.take("found")
    if attached.keys is not None:
        keyed, columns = with_key_columns(attached.relation, attached.keys, names)
        outputs = passing(keyed.column(name) for name in dict.fromkeys(columns))
        known: Relation = Distinct(Project(keyed, (*outputs, truth(found))))
        on = conditions_on(known, attached.keys, columns)
    else:
        domain = domain_of(child, bound_columns(child, essential), names)
        conditions = tuple(_for_domain(each, domain) for each in attached.conditions)
        having = Join(domain.relation, attached.relation, JoinKind.SEMI, conditions)
        known = extended(having, truth(found))
        on = domain.matches(child, known)
    joined = Join(child, known, JoinKind.LEFT, on)
    value = expression("{} IS NOT NULL", "boolean", joined.column(found).value)
    return Project(joined, (*passing(child.columns), Output(apply.output.name, value)))


def _for_domain(condition: Expression, domain: Domain) -> Expression:
    """A condition on the enclosing rows as one on their distinct values."""
    return condition.substitute({name: column.value for name, column in domain.columns.items()})


def _in_by_keys(
    apply: Apply, child: Relation, attached: Attached, name: str, keys: list[Key], names: FreshNames
) -> Relation:
    keyed, columns = with_key_columns(attached.relation, keys, names)
    probe, member = apply.probe[0], attached.value(name)
    found, partner = names.take("found"), Output(names.take("member"), member)
    copies = {each: Output(names.take("key"), keyed.column(each).value) for each in columns}
    members = Distinct(Project(keyed, (*copies.values(), partner, truth(found))))
    on = conditions_on(members, keys, [copies[each].name for each in columns])
    matched = Join(child, members, JoinKind.LEFT, (*on, equals(probe, partner.column.value)))
    rows, known = count_rows(names.take("rows")), aggregation(names.take("known"), "count", member, "bigint")
    summary = Aggregate(keyed, tuple(dict.fromkeys(columns)), (rows, known))
    kind = JoinKind.LEFT if keys else JoinKind.INNER
    joined = Join(matched, summary, kind, conditions_on(summary, keys, columns))
    value = expression(
        "CASE WHEN {} THEN true WHEN coalesce({}, 0) = 0 THEN false "
        "WHEN {} IS NULL OR {} < {} THEN NULL ELSE false END",
        "boolean",
        joined.column(found).value,
        rows.column.value,
        probe,
        known.column.value,
        rows.column.value,
    )
    return Project(joined, (*passing(child.columns), Output(apply.output.name, value)))


def _in_by_domain(apply: Apply, child: Relation, inner: Relation, attached: Attached, names: FreshNames) -> Relation:
    probes = tuple(Output(names.take("probe"), each) for each in apply.probe)
    domain = domain_of(child, bound_columns(child, inner), names, *probes)
    pairs = zip(probes, inner.names, strict=True)
    comparison = all_of(tuple(equals(probe.column.value, attached.value(name)) for probe, name in pairs))
    not_false = expression("coalesce({}, true)", "boolean", comparison)
    conditions = tuple(_for_domain(each, domain) for each in attached.conditions)
    candidates = Join(domain.relation, attached.relation, JoinKind.INNER, (*conditions, not_false))
    outcome, found = aggregation(names.take("outcome"), "max", comparison, "boolean"), names.take("found")
    known = extended(Aggregate(candidates, domain.relation.names, (outcome,)), truth(found))
    same_probe = tuple(equals(each.value, known.column(each.name).value, null_safe=True) for each in probes)
    joined = Join(child, known, JoinKind.LEFT, domain.matches(child, known) + same_probe)
    value = expression(
        "CASE WHEN {} THEN {} ELSE false END", "boolean", joined.column(found).value, outcome.column.value
    )
    return Project(joined, (*passing(child.columns), Output(apply.output.name, value)))
