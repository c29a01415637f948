"""Why was this table recomputed in full? Every refresh says so, and explain says what to do about it."""

import tempfile

import anabranch
from anabranch.observe.reasons import reason_of

with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder) as lake:
    lake.sql("CREATE TABLE orders (id BIGINT, customer STRING, amount DECIMAL(12,2))")
    lake.sql("INSERT INTO orders VALUES (1, 'ada', 10), (2, 'bob', 20), (3, 'ada', 30)")
    lake.create_stream_table(
        "spread", "SELECT customer, percentile_approx(amount, 0.5) AS median FROM orders GROUP BY customer"
    )
    lake.sql("INSERT INTO orders VALUES (4, 'bob', 40)")
    report = lake.refresh()

    reason = report["spread"].reason
    print(report["spread"].action, reason)
    print("what it means:", reason_of(reason).meaning)
    print("what to do:   ", reason_of(reason).advice)
    print(lake.explain("spread")["mode"])
    assert reason.startswith("NOT_DIFFERENTIABLE")

    exact = "SELECT customer, percentile(amount, 0.5) AS median FROM orders GROUP BY customer"
    lake.alter_stream_table("spread", query=exact, refresh_mode="DIFFERENTIAL")  # it can be kept incrementally
    lake.sql("INSERT INTO orders VALUES (5, 'eve', 1)")
    after = lake.refresh()["spread"]
    print(after.action, after.reason)
    assert after.action == "DIFFERENTIAL"
    assert lake.check("spread")
