"""The command line: airflow connect …"""
