-- What people and programs write to.
CREATE TABLE sales (id BIGINT, product_id BIGINT, amount DECIMAL(12,2), sold_on DATE);

CREATE TABLE products (id BIGINT, name STRING, category STRING);

CREATE VIEW priced_sales AS
SELECT s.id, s.amount, s.sold_on, p.name, p.category
FROM sales s JOIN products p ON p.id = s.product_id;
