"""Bronze, silver, gold: raw events cleaned, joined and summed up, each layer a stream table over the one before.

A correction that arrives late in bronze (an order cancelled, a price mended) flows through all layers as a small
change; nothing is recomputed.
"""

import tempfile

import anabranch

SILVER = """
SELECT CAST(raw.order_id AS BIGINT) AS order_id,
       lower(trim(raw.country)) AS country,
       CAST(raw.price AS DECIMAL(12,2)) AS price
FROM (SELECT from_json(body, 'order_id BIGINT, country STRING, price DECIMAL(12,2)') AS raw FROM bronze)
WHERE raw.order_id IS NOT NULL AND raw.price > 0
"""
GOLD = """
SELECT s.country, c.currency, COUNT(*) AS orders, SUM(s.price) AS revenue
FROM silver s JOIN countries c ON c.country = s.country
GROUP BY s.country, c.currency
"""

with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder) as lake:
    lake.sql("CREATE TABLE bronze (body STRING, received_at TIMESTAMP)")
    lake.sql("CREATE TABLE countries (country STRING, currency STRING)")
    lake.append("countries", [("se", "SEK"), ("de", "EUR")])
    lake.create_stream_table("silver", SILVER, schedule="10s", refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("gold", GOLD, schedule="1m", refresh_mode="DIFFERENTIAL")

    def event(order: int, country: str, price: str) -> tuple[str, None]:
        return f'{{"order_id": {order}, "country": "{country}", "price": {price}}}', None

    lake.append(
        "bronze", [event(1, " SE", "100.00"), event(2, "de", "40.50"), event(3, "se", "-1"), ("not json", None)]
    )
    print(lake.refresh())

    late = event(2, "de", "40.50")
    lake.apply("bronze", delete=[late], insert=[event(2, "de", "45.00")])  # the price was wrong
    report = lake.refresh()
    print(report)

    assert report["gold"].action == "DIFFERENTIAL"
    found = {row.country: row.revenue for row in lake.table("gold").collect()}
    assert {country: str(revenue) for country, revenue in found.items()} == {"se": "100.00", "de": "45.00"}
    assert lake.check("silver")
    assert lake.check("gold")
