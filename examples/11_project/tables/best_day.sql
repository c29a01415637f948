---
schedule: "@hourly"
---
SELECT sold_on, SUM(amount) AS revenue
FROM priced_sales
GROUP BY sold_on
ORDER BY revenue DESC, sold_on
LIMIT 1
