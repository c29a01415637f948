"""A leaderboard: the ten best players, fresh within seconds however many games there are.

When one of the ten loses points, the eleventh moves up: rows beyond the tenth are kept for that, behind the scenes.
"""

import random
import tempfile

import anabranch

SCORES = "SELECT player, SUM(points) AS score FROM games GROUP BY player"
TOP = "SELECT player, score FROM scores ORDER BY score DESC, player LIMIT 10"

rng = random.Random(5)
with tempfile.TemporaryDirectory() as folder, anabranch.connect(folder) as lake:
    lake.sql("CREATE TABLE games (id BIGINT, player STRING, points BIGINT)")
    lake.append("games", [(number, f"player {rng.randint(1, 40):02}", rng.randint(0, 99)) for number in range(2000)])
    lake.create_stream_table("scores", SCORES, schedule="2s", refresh_mode="DIFFERENTIAL")
    lake.create_stream_table("leaderboard", TOP, schedule="2s", refresh_mode="DIFFERENTIAL")
    before = [row.player for row in lake.table("leaderboard").orderBy("score", ascending=False).collect()]

    lake.sql(f"DELETE FROM games WHERE player = '{before[0]}' AND points > 50")  # the champion cheated
    report = lake.refresh()
    print(report)

    after = {row.player for row in lake.table("leaderboard").collect()}
    assert len(after) == 10
    assert before[0] not in after
    assert report["leaderboard"].action == "DIFFERENTIAL"
    assert lake.check("leaderboard")
