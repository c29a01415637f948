"""Two totals of the same money, computed along two paths, that never differ.

`sales` feeds revenue by region and revenue by product; the summary reads both. In most set-ups the two branches are
refreshed at different moments, and the summary shows 100 beside 103. Here they move together, in one commit.
"""

import tempfile

import anabranch

with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder) as lake:
    lake.sql("CREATE TABLE sales (id BIGINT, region STRING, product_id BIGINT, amount DECIMAL(12,2))")
    lake.sql("INSERT INTO sales VALUES (1, 'north', 7, 10.00), (2, 'south', 7, 5.50), (3, 'north', 8, 1.25)")
    lake.create_stream_table(
        "revenue_by_region",
        "SELECT region, SUM(amount) AS revenue FROM sales GROUP BY region",
        schedule="2s",
    )
    lake.create_stream_table(
        "revenue_by_product",
        "SELECT product_id, SUM(amount) AS revenue FROM sales GROUP BY product_id",
        schedule="5s",
    )
    created = lake.create_stream_table(
        "exec_summary",
        """SELECT r.total AS by_region, p.total AS by_product
           FROM (SELECT SUM(revenue) AS total FROM revenue_by_region) r
           CROSS JOIN (SELECT SUM(revenue) AS total FROM revenue_by_product) p""",
        schedule="3s",
    )
    print(*created.notices)  # the diamond is announced
    print(lake.diamond_groups())

    with lake.transaction():  # several writes, one snapshot
        lake.sql("UPDATE sales SET amount = amount * 2 WHERE region = 'north'")
        lake.sql("DELETE FROM sales WHERE id = 2")
    print(lake.refresh())

    (summary,) = lake.table("exec_summary").collect()
    assert summary.by_region == summary.by_product
    assert all(lake.check(name) for name in ("revenue_by_region", "revenue_by_product", "exec_summary"))
    print("both totals:", summary.by_region)
