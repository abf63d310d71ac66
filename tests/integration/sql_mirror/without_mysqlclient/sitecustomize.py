"""For a process whose Airflow has a database of MySQL's kind: pymysql instead of mysqlclient, which takes a C compiler to install."""

import sys

import pymysql.converters

pymysql.install_as_MySQLdb()
pymysql.converters.DateTime2literal = pymysql.converters.escape_datetime  # type: ignore[attr-defined]  # what Airflow asks for
sys.modules["MySQLdb.converters"] = pymysql.converters
