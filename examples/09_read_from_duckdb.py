"""A plain DuckDB client reads stream tables, at any snapshot, and writes to sources. No Spark on its side."""

import tempfile

import duckdb

import anabranch
from anabranch.store.connection import extension_path

with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder) as lake:
    lake.sql("CREATE TABLE sales (region STRING, amount DECIMAL(12,2))")
    lake.sql("INSERT INTO sales VALUES ('north', 10), ('south', 5)")
    created = lake.create_stream_table("revenue", "SELECT region, SUM(amount) AS revenue FROM sales GROUP BY region")

    client = duckdb.connect()
    for name in ("ducklake", "sqlite_scanner"):
        client.execute(f"LOAD '{extension_path(name)}'")  # elsewhere: INSTALL ducklake; LOAD ducklake
    client.execute(f"ATTACH 'ducklake:sqlite:{folder}/catalog.sqlite' AS shop")
    client.execute("INSERT INTO shop.sales VALUES ('north', 1)")
    lake.refresh()

    new = client.execute("SELECT * FROM shop.revenue ORDER BY region").fetchall()
    old = client.execute(f"SELECT * FROM shop.revenue AT (VERSION => {created.snapshot}) ORDER BY region").fetchall()
    print("then:", old, "now:", new)
    assert [int(revenue) for _, revenue in new] == [11, 5]
    assert [int(revenue) for _, revenue in old] == [10, 5]
    assert lake.check("revenue")
    client.close()
