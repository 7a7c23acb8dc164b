//! Treefold's micro service.
