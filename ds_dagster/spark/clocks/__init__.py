"""Event time of a job: which inputs have it, and the clock that moves it."""
