-- Run by the tests after `anabranch apply`; `clicks` is a source of the lake, made before.
INSERT INTO clicks VALUES ('/', false), ('/', false), ('/cart', false), ('/', true);
REFRESH STREAM TABLE;
SELECT * FROM top_pages;
