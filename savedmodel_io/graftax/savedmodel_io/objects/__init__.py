"""The object graph of a SavedModel: its functions, their structure, and which object is which variable."""
