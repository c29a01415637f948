"""The history of customers' addresses as validity ranges (type 2), from a plain log of changes.

No hand-written MERGE: the ranges are a window over the log, and a correction of the past moves the ranges beside it.
"""

import tempfile

import anabranch

CUSTOMER_HISTORY = """
SELECT customer, city, since AS valid_from,
       lead(since) OVER (PARTITION BY customer ORDER BY since) AS valid_to,
       lead(since) OVER (PARTITION BY customer ORDER BY since) IS NULL AS is_current
FROM address_changes
"""
SALES_BY_CITY = """
SELECT h.city, SUM(s.amount) AS revenue
FROM sales s
JOIN customer_history h
  ON h.customer = s.customer AND s.sold_on >= h.valid_from AND (h.valid_to IS NULL OR s.sold_on < h.valid_to)
GROUP BY h.city
"""

with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder) as lake:
    lake.sql("CREATE TABLE address_changes (customer STRING, city STRING, since DATE)")
    lake.sql("CREATE TABLE sales (customer STRING, amount DECIMAL(12,2), sold_on DATE)")
    lake.create_stream_table("customer_history", CUSTOMER_HISTORY, refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("sales_by_city", SALES_BY_CITY, refresh_mode="DIFFERENTIAL")
    with lake.transaction():
        lake.sql(
            "INSERT INTO address_changes VALUES ('ada', 'Lund', DATE '2026-01-01'), ('ada', 'Kiel', DATE '2026-03-01')"
        )
        lake.sql("INSERT INTO sales VALUES ('ada', 10, DATE '2026-02-15'), ('ada', 20, DATE '2026-04-01')")
    lake.refresh()

    # She had moved earlier than we knew: the sale of February belongs to another city.
    lake.sql("UPDATE address_changes SET since = DATE '2026-02-01' WHERE city = 'Kiel'")
    report = lake.refresh()
    print(report)

    assert {row.city: int(row.revenue) for row in lake.table("sales_by_city").collect()} == {"Kiel": 30}
    assert {each.action for each in report.nodes.values()} == {"DIFFERENTIAL"}
    assert lake.check("customer_history")
    assert lake.check("sales_by_city")
