//! Ready-made aggregations and payload codecs: pure functions.
