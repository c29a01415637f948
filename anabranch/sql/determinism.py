"""Functions whose value is not given by their arguments. Spark calls some of these deterministic; this is our table."""

from __future__ import annotations

NONDETERMINISTIC = frozenset(
    (
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
        *("java_method", "reflect", "try_reflect", "current_user", "user", "session_user", "current_catalog"),
        *("current_database", "current_schema", "current_path", "version"),
    )
)
"""Random, or dependent on the session, the file or the partition a row happens to be in."""

TIME = frozenset((*("current_date", "curdate", "current_timestamp", "now", "localtimestamp", "current_time"),))
"""The clock. A query that uses one has the clock among its sources."""

TIME_WITHOUT_ARGUMENTS = frozenset(("unix_timestamp",))
"""The clock when called without arguments."""

WITHOUT_PARENTHESES = frozenset(
    (
        *("current_date", "current_timestamp", "current_time", "localtimestamp", "current_user", "user"),
        *("session_user",),
    )
)
"""Spark reads these names as calls where no column has them."""

CLOCK_WORDS = frozenset(("now", "today", "yesterday", "tomorrow"))
"""`DATE 'today'` reads the clock, too."""
