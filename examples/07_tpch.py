"""Three TPC-H queries kept fresh while all eight tables change. Needs the development extras (tpchgen-cli).

Data and query texts come from the tools that own them. A larger scale is the first argument: 07_tpch.py 0.1
"""

import sys
import tempfile
from pathlib import Path

import anabranch
from anabranch.bench import tpch

scale = float(sys.argv[1]) if len(sys.argv) > 1 else 0.001
with tempfile.TemporaryDirectory() as folder, anabranch.connect(f"{folder}/lake") as lake:
    tpch.load(lake, tpch.generate(scale, Path(folder) / "data"))
    texts = tpch.queries()
    for number in (1, 3, 15):
        lake.create_stream_table(f"q{number:02}", texts[number], refresh_mode="DIFFERENTIAL")

    tpch.apply(lake, tpch.changes(seed=1, share=0.01))
    report = lake.refresh()
    print(report)

    assert {each.action for each in report.nodes.values()} <= {"DIFFERENTIAL", "NO_DATA"}
    assert all(lake.check(name) for name in report)
