"""Many connections that write to one table while runs carry it into another; and whether both agree in the end, in each mode."""
