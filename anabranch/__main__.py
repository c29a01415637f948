"""`python -m anabranch` is the command line."""

from anabranch.cli.main import app

app(prog_name="anabranch")
