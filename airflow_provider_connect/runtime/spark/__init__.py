"""What spark-submit is given: Java, class data, archives, run directories."""
