"""seoga (서가, a bookshelf): index document folders and search them, in Korean and English."""
