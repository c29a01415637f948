"""Which of Spark's functions are aggregates, window functions or generators, and which need care.

A test compares these tables with the functions of the Spark at hand.
"""

from __future__ import annotations

AGGREGATES = frozenset(
    (
        *("any", "any_value", "approx_count_distinct", "approx_percentile", "approx_top_k"),
        *("approx_top_k_accumulate", "approx_top_k_combine", "array_agg", "avg", "bit_and", "bit_or"),
        *("bit_xor", "bitmap_and_agg", "bitmap_construct_agg", "bitmap_or_agg", "bool_and", "bool_or"),
        *("collect_list", "collect_set", "corr", "count", "count_if", "count_min_sketch", "covar_pop"),
        *("covar_samp", "every", "first", "first_value", "histogram_numeric", "hll_sketch_agg"),
        *("hll_union_agg", "kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float"),
        *("kll_sketch_agg_bigint", "kll_sketch_agg_double", "kll_sketch_agg_float", "kurtosis", "last"),
        *("last_value", "listagg", "max", "max_by", "mean", "measure", "median", "min", "min_by", "mode"),
        *("percentile", "percentile_approx", "percentile_cont", "percentile_disc", "regr_avgx", "regr_avgy"),
        *("regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy"),
        *("schema_of_variant_agg", "skewness", "some", "std", "stddev", "stddev_pop", "stddev_samp"),
        *("string_agg", "sum", "theta_intersection_agg", "theta_sketch_agg", "theta_union_agg", "try_avg"),
        *("try_sum", "tuple_intersection_agg_double", "tuple_intersection_agg_integer"),
        *("tuple_sketch_agg_double", "tuple_sketch_agg_integer", "tuple_union_agg_double"),
        *("tuple_union_agg_integer", "var_pop", "var_samp", "variance", "vector_avg", "vector_sum"),
    )
)

GROUPING = frozenset(("grouping", "grouping_id"))

WINDOW_ONLY = frozenset(
    (
        *("cume_dist", "dense_rank", "lag", "lead", "nth_value", "ntile", "percent_rank", "rank"),
        *("row_number",),
    )
)

GENERATORS = frozenset(
    (
        *("explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode"),
        *("posexplode_outer", "stack", "variant_explode", "variant_explode_outer"),
    )
)

APPROXIMATE = frozenset(
    (
        *("approx_percentile", "approx_top_k", "approx_top_k_accumulate", "approx_top_k_combine"),
        *("count_min_sketch", "histogram_numeric", "hll_sketch_agg", "hll_union_agg", "kll_merge_agg_bigint"),
        *("kll_merge_agg_double", "kll_merge_agg_float", "kll_sketch_agg_bigint", "kll_sketch_agg_double"),
        *("kll_sketch_agg_float", "measure", "percentile_approx", "schema_of_variant_agg"),
        *("theta_intersection_agg", "theta_sketch_agg", "theta_union_agg", "tuple_intersection_agg_double"),
        *("tuple_intersection_agg_integer", "tuple_sketch_agg_double", "tuple_sketch_agg_integer"),
        *("tuple_union_agg_double", "tuple_union_agg_integer"),
    )
)
"""Aggregates whose value depends on the order in which rows come, and that no added order settles."""

FIRST_OR_LAST = {
    "first": "min_by",
    "first_value": "min_by",
    "any_value": "min_by",
    "last": "max_by",
    "last_value": "max_by",
}
COLLECTING = frozenset(("collect_list", "array_agg", "collect_set"))
JOINING = frozenset(("listagg", "string_agg"))
NEEDS_TOTAL_ORDER = frozenset(("row_number", "ntile", "lag", "lead"))
TIE_SAFE_IN_WINDOW = frozenset(("rank", "dense_rank", "percent_rank", "cume_dist"))
