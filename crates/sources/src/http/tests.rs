//! Tests of requests and answers, without a network.
