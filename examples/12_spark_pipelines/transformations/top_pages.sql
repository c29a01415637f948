CREATE MATERIALIZED VIEW top_pages AS
SELECT page, clicks FROM clicks_per_page ORDER BY clicks DESC, page LIMIT 3;
