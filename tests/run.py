"""`make test`: two processes side by side, since there are two cores and Spark plans on one of them.

One runs the tests that need Spark, all but the random queries; the other those that need none, then the random queries,
with a Spark of its own. Its output is shown when the first has ended, so that they do not mix.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

PYTEST = [sys.executable, "-m", "pytest", "-m", "not soak and not bench", "--durations=15"]
RANDOM_SQL = "tests/exactness/test_random_sql.py"
BESIDE = "beside"


def main() -> int:
    if sys.argv[1:] == [BESIDE]:
        return run("--spark=without") or run("--spark=with", RANDOM_SQL)
    with tempfile.TemporaryFile("w+") as kept:
        beside = subprocess.Popen([sys.executable, "-m", "tests.run", BESIDE], stdout=kept, stderr=subprocess.STDOUT)
        try:
            here = run("--spark=with", f"--ignore={RANDOM_SQL}")
            there = beside.wait()
        finally:
            beside.kill()
        kept.seek(0)
        print(f"\nThe tests that need no Spark, and the random queries:\n{kept.read()}", flush=True)
    return here or there


def run(*options: str) -> int:
    return subprocess.call([*PYTEST, *options])


if __name__ == "__main__":
    sys.exit(main())
