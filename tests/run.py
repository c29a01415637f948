"""`make test`: the tests that need Spark and those that do not, side by side, one process each.

The second one's output is shown when the first has ended, so that they do not mix.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile

PYTEST = [sys.executable, "-m", "pytest", "-m", "not soak and not bench", "--durations=15"]


def main() -> int:
    with tempfile.TemporaryFile("w+") as kept:
        beside = subprocess.Popen([*PYTEST, "--spark=without"], stdout=kept, stderr=subprocess.STDOUT)
        try:
            with_spark = subprocess.call([*PYTEST, "--spark=with"])
            without = beside.wait()
        finally:
            beside.kill()
        kept.seek(0)
        print(f"\nThe tests that need no Spark:\n{kept.read()}", flush=True)
    return with_spark or without


if __name__ == "__main__":
    sys.exit(main())
