"""Fraud rules over windows: many payments within ten minutes, or a payment far above what is usual for the card.

Each rule is a stream table; the alerts are their union. A payment that is withdrawn takes its alert along.
"""

import tempfile

import anabranch

RULES = {
    "burst": """
        SELECT card, id, 'burst' AS rule FROM (
            SELECT card, id, COUNT(*) OVER (
                PARTITION BY card ORDER BY paid_at RANGE BETWEEN INTERVAL 10 MINUTES PRECEDING AND CURRENT ROW
            ) AS recent FROM payments)
        WHERE recent >= 4""",
    "unusual": """
        SELECT p.card, p.id, 'unusual' AS rule
        FROM payments p
        JOIN (SELECT card, AVG(amount) AS usual, COUNT(*) AS n FROM payments GROUP BY card) u ON u.card = p.card
        WHERE u.n >= 5 AND p.amount > 4 * u.usual""",
}
ALERTS = "SELECT * FROM burst UNION ALL SELECT * FROM unusual"

with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder) as lake:
    lake.sql("CREATE TABLE payments (id BIGINT, card STRING, amount DECIMAL(12,2), paid_at TIMESTAMP)")
    values = ", ".join(f"({n}, 'A', 10, TIMESTAMP '2026-05-01 {8 + n}:00:00')" for n in range(6))
    lake.sql(f"INSERT INTO payments VALUES {values}")
    for name, query in RULES.items():
        lake.create_stream_table(name, query, schedule="2s")
    lake.create_stream_table("alerts", ALERTS, schedule="2s")
    assert lake.table("alerts").count() == 0

    lake.sql("INSERT INTO payments VALUES (20, 'A', 500, TIMESTAMP '2026-05-01 20:00:00')")
    burst = ", ".join(f"({30 + n}, 'B', 5, TIMESTAMP '2026-05-01 12:0{n}:00')" for n in range(4))
    lake.sql(f"INSERT INTO payments VALUES {burst}")
    print(lake.refresh())
    assert {(row.id, row.rule) for row in lake.table("alerts").collect()} == {(20, "unusual"), (33, "burst")}

    lake.sql("DELETE FROM payments WHERE id = 31")  # withdrawn: now only three within ten minutes
    lake.refresh()
    assert {row.id for row in lake.table("alerts").collect()} == {20}
    assert all(lake.check(name) for name in (*RULES, "alerts"))
