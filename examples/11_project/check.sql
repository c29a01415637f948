-- Run by the tests after `anabranch apply`: writes, a refresh; then every table is checked from scratch.
INSERT INTO products VALUES (1, 'tea', 'drinks'), (2, 'bread', 'food');
INSERT INTO sales VALUES (1, 1, 3.50, DATE '2026-05-01'), (2, 2, 2.00, DATE '2026-05-01'), (3, 1, 9.00, DATE '2026-05-02');
REFRESH STREAM TABLE;
SELECT * FROM best_day;
