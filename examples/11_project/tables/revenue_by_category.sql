-- schedule: 5s
-- refresh_mode: DIFFERENTIAL
SELECT category, SUM(amount) AS revenue, COUNT(*) AS sale_count
FROM priced_sales
GROUP BY category
