from pyspark import pipelines as dp


@dp.temporary_view
def human_clicks():
    return spark.table("clicks").filter("NOT is_robot")  # noqa: F821  `spark` is given


@dp.materialized_view
def clicks_per_page():
    return spark.sql("SELECT page, COUNT(*) AS clicks FROM human_clicks GROUP BY page")  # noqa: F821
