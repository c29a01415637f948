"""Visits of a web site: clicks less than 30 minutes apart belong to one session.

A click that arrives late can join two sessions into one. Only the visitors who clicked are looked at again.
"""

import tempfile

import anabranch

SESSIONS = """
SELECT visitor, session_window.start AS began_at, session_window.end AS ended_at, COUNT(*) AS clicks
FROM clicks
GROUP BY visitor, session_window(clicked_at, '30 minutes')
"""
PER_DAY = """
SELECT to_date(began_at) AS day, COUNT(*) AS sessions, AVG(clicks) AS clicks_a_session
FROM sessions GROUP BY to_date(began_at)
"""

with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder) as lake:
    lake.sql("CREATE TABLE clicks (visitor STRING, page STRING, clicked_at TIMESTAMP)")
    lake.sql(
        """INSERT INTO clicks VALUES
           ('ada', '/', TIMESTAMP '2026-05-01 09:00:00'), ('ada', '/cart', TIMESTAMP '2026-05-01 09:50:00'),
           ('bob', '/', TIMESTAMP '2026-05-01 10:00:00')"""
    )
    lake.create_stream_table("sessions", SESSIONS, schedule="5s", refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("sessions_per_day", PER_DAY, schedule="1m")
    assert lake.table("sessions").where("visitor = 'ada'").count() == 2

    lake.sql("INSERT INTO clicks VALUES ('ada', '/help', TIMESTAMP '2026-05-01 09:25:00')")  # it came late
    report = lake.refresh()
    print(report)

    assert report["sessions"].action == "DIFFERENTIAL"
    (ada,) = lake.table("sessions").where("visitor = 'ada'").collect()
    assert ada.clicks == 3
    assert lake.check("sessions")
    assert lake.check("sessions_per_day")
