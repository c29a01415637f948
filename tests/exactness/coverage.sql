-- projection
SELECT id, amount * 2 AS twice FROM sales

-- filter
SELECT id FROM sales WHERE amount > 10 AND region IS NOT NULL

-- inner join
SELECT s.id, p.name FROM sales s JOIN products p ON s.product_id = p.id

-- left join, with a condition besides the key
SELECT s.id, p.name FROM sales s LEFT JOIN products p ON s.product_id = p.id AND p.price > s.amount

-- right join
SELECT s.id, p.name FROM sales s RIGHT JOIN products p ON s.product_id = p.id

-- full join
SELECT s.id, p.name FROM sales s FULL JOIN products p ON s.product_id = p.id

-- semi-join
SELECT s.id FROM sales s LEFT SEMI JOIN products p ON s.product_id = p.id

-- anti-join
SELECT s.id FROM sales s LEFT ANTI JOIN products p ON s.product_id = p.id

-- cross join
SELECT s.id, p.name FROM sales s CROSS JOIN products p

-- join by another comparison
SELECT s.id, p.name FROM sales s JOIN products p ON s.amount > p.price

-- self-join
SELECT c.name, p.name AS part_of FROM products c JOIN products p ON c.parent = p.id

-- USING
SELECT id, region, name FROM sales JOIN products USING (id)

-- NATURAL
SELECT * FROM sales NATURAL LEFT JOIN quarters

-- join of four tables
SELECT s.id FROM sales s JOIN products p ON s.product_id = p.id JOIN products r ON p.parent = r.id JOIN quarters q ON q.region = s.region

-- COUNT, SUM, AVG
SELECT region, count(*) AS n, sum(amount) AS s, avg(amount) AS m FROM sales GROUP BY region

-- MIN, MAX
SELECT region, min(amount) AS lo, max(sold_at) AS hi FROM sales GROUP BY region

-- SUM of floating-point numbers
SELECT parent, sum(price) AS s FROM products GROUP BY parent

-- STDDEV, VARIANCE
SELECT region, stddev(amount) AS s, variance(amount) AS v FROM sales GROUP BY region

-- CORR, COVAR
SELECT parent, corr(price, id) AS c, covar_pop(price, id) AS v FROM products GROUP BY parent

-- COUNT(DISTINCT)
SELECT region, count(DISTINCT product_id) AS n FROM sales GROUP BY region

-- FILTER (WHERE)
SELECT region, sum(amount) FILTER (WHERE amount > 10) AS s FROM sales GROUP BY region

-- collect_list, collect_set
SELECT region, collect_list(id) AS ids, collect_set(product_id) AS products FROM sales GROUP BY region

-- listagg
SELECT parent, listagg(name, ', ') WITHIN GROUP (ORDER BY name) AS names FROM products GROUP BY parent

-- percentiles
SELECT region, percentile(amount, 0.5) AS p, median(amount) AS m FROM sales GROUP BY region

-- first, last, max_by, mode
SELECT region, first(id) AS f, max_by(id, amount) AS m, mode(product_id) AS o FROM sales GROUP BY region

-- aggregate without GROUP BY
SELECT count(*) AS n, sum(amount) AS s FROM sales

-- HAVING
SELECT region, count(*) AS n FROM sales GROUP BY region HAVING count(*) > 10

-- aggregate over an aggregate
SELECT n, count(*) AS regions FROM (SELECT region, count(*) AS n FROM sales GROUP BY region) GROUP BY n

-- DISTINCT
SELECT DISTINCT region, product_id FROM sales

-- UNION ALL
SELECT id FROM sales UNION ALL SELECT id FROM products

-- UNION
SELECT id FROM sales UNION SELECT id FROM products

-- INTERSECT
SELECT id FROM sales INTERSECT SELECT id FROM products

-- INTERSECT ALL
SELECT id FROM sales INTERSECT ALL SELECT id FROM products

-- EXCEPT
SELECT id FROM sales EXCEPT SELECT id FROM products

-- EXCEPT ALL
SELECT id FROM sales EXCEPT ALL SELECT id FROM products

-- EXISTS
SELECT id FROM sales s WHERE EXISTS (SELECT 1 FROM products p WHERE p.id = s.product_id)

-- NOT EXISTS
SELECT id FROM sales s WHERE NOT EXISTS (SELECT 1 FROM products p WHERE p.id = s.product_id AND p.price <> s.amount)

-- IN
SELECT id FROM sales WHERE product_id IN (SELECT id FROM products WHERE price > 10)

-- NOT IN
SELECT id FROM sales WHERE product_id NOT IN (SELECT id FROM products)

-- IN as a value, or under OR
SELECT id, product_id IN (SELECT id FROM products) AS known FROM sales WHERE region = 'north' OR id IN (SELECT parent FROM products)

-- scalar subquery
SELECT id, amount - (SELECT avg(amount) FROM sales) AS above FROM sales

-- correlated scalar subquery
SELECT name, (SELECT count(*) FROM sales s WHERE s.product_id = p.id) AS sold FROM products p

-- correlated subquery in WHERE
SELECT id FROM sales s WHERE amount > (SELECT avg(i.amount) FROM sales i WHERE i.product_id = s.product_id)

-- common table expression, used twice
WITH t AS (SELECT region, sum(amount) AS s FROM sales GROUP BY region) SELECT a.region, b.region AS other FROM t a JOIN t b ON a.s > b.s

-- window function with PARTITION BY
SELECT id, rank() OVER (PARTITION BY region ORDER BY amount DESC) AS r FROM sales

-- window frames
SELECT id, sum(amount) OVER (PARTITION BY region ORDER BY sold_at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM sales

-- windows with different partitions
SELECT id, count(*) OVER (PARTITION BY region) AS a, count(*) OVER (PARTITION BY product_id) AS b FROM sales

-- window function without PARTITION BY
SELECT id, row_number() OVER (ORDER BY amount DESC) AS n FROM sales

-- QUALIFY
SELECT id FROM sales QUALIFY row_number() OVER (PARTITION BY region ORDER BY amount DESC) = 1

-- ORDER BY ... LIMIT
SELECT id, amount FROM sales ORDER BY amount DESC LIMIT 10

-- ORDER BY ... LIMIT ... OFFSET
SELECT id, amount FROM sales ORDER BY amount DESC LIMIT 10 OFFSET 5

-- ORDER BY without LIMIT
SELECT id FROM sales ORDER BY id

-- GROUPING SETS
SELECT region, product_id, sum(amount) AS s FROM sales GROUP BY GROUPING SETS ((region), (product_id), ())

-- ROLLUP
SELECT region, product_id, grouping_id() AS g, sum(amount) AS s FROM sales GROUP BY ROLLUP (region, product_id)

-- CUBE
SELECT region, product_id, sum(amount) AS s FROM sales GROUP BY CUBE (region, product_id)

-- LATERAL subquery
SELECT p.name, l.id FROM products p, LATERAL (SELECT s.id FROM sales s WHERE s.product_id = p.id ORDER BY s.amount DESC LIMIT 1) l

-- LATERAL VIEW, explode
SELECT id, tag FROM sales LATERAL VIEW explode(tags) t AS tag

-- VALUES
SELECT s.id, v.label FROM sales s JOIN VALUES ('north', 'N'), ('south', 'S') AS v(region, label) ON v.region = s.region

-- PIVOT
SELECT * FROM (SELECT region, product_id, amount FROM sales) PIVOT (sum(amount) FOR region IN ('north', 'south'))

-- UNPIVOT
SELECT * FROM quarters UNPIVOT (sold FOR quarter IN (q1, q2))

-- tumbling time window
SELECT window.start AS since, count(*) AS n FROM sales GROUP BY window(sold_at, '1 hour')

-- sliding time window
SELECT window.start AS since, count(*) AS n FROM sales GROUP BY window(sold_at, '1 hour', '15 minutes')

-- session window
SELECT region, session_window.start AS since, count(*) AS n FROM sales GROUP BY region, session_window(sold_at, '5 minutes')

-- pipe syntax
FROM sales |> WHERE amount > 10 |> AGGREGATE sum(amount) AS s GROUP BY region

-- nested types, higher-order functions
SELECT id, named_struct('n', size(tags), 'first', tags[0]) AS s, filter(tags, t -> t <> '') AS kept FROM sales

-- WITH RECURSIVE
WITH RECURSIVE t(id, depth) AS (SELECT id, 0 FROM products WHERE parent IS NULL UNION ALL SELECT p.id, depth + 1 FROM products p JOIN t ON p.parent = t.id) SELECT * FROM t

-- the current date
SELECT id FROM sales WHERE sold_at >= current_date() - INTERVAL 7 DAYS

-- the current time
SELECT id FROM sales WHERE sold_at >= now() - INTERVAL 1 HOUR

-- LIMIT without ORDER BY
SELECT id FROM sales LIMIT 10

-- TABLESAMPLE
SELECT id FROM sales TABLESAMPLE (10 PERCENT)

-- random values
SELECT id, rand() AS r FROM sales

-- approximate aggregate
SELECT percentile_approx(amount, 0.5) AS p FROM sales
