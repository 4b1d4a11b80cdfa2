"""Tables: the best private release of one vote among any number of classes, for voters that are private or not."""
