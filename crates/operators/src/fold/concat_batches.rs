//! Concatenates record batches: all rows of all endpoints, in the order in which the wave contains them.
//!
//! A partial is a batch of the same form as an endpoint's, so all nodes fold alike. The result grows with the
//! number of endpoints, so it is bounded by `rows_max`. One row more is an error that names the limit; silent
//! truncation would depend on the tree.

use super::params::{read, within};
use super::{Fold, Piece};
use crate::builtin::{Builtin, Made, Param, stateless};
use crate::codec::{BATCH_ROWS_MAX, Batch, Body, Codec, concatenated};
use crate::error::{OperatorError, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    rows_max: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self { rows_max: 1 << 20 }
    }
}

pub(crate) const ENTRY: Builtin = Builtin {
    name: "concat-batches",
    summary: "concatenates Arrow batches of one schema",
    params: &[Param { name: "rows_max", meaning: "most rows of a batch sent up; 1048576 by default" }],
    made: Made::Fold(|name| stateless(name, ConcatBatches::open)),
};

struct ConcatBatches {
    rows_max: usize,
}

impl ConcatBatches {
    fn open(params: &Bytes) -> Result<Self> {
        let params: Params = read(params)?;
        Ok(Self { rows_max: within("rows_max", params.rows_max as usize, 1..=BATCH_ROWS_MAX)? })
    }
}

impl Fold for ConcatBatches {
    const CODECS: (Codec, Codec) = (Codec::MessagePack, Codec::ArrowIpc);

    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let (mut batches, mut rows) = (Vec::with_capacity(pieces.len()), 0);
        for piece in pieces {
            let batch: Batch = piece.read()?;
            rows += batch.0.num_rows();
            if rows > self.rows_max {
                let limit = self.rows_max;
                return Err(OperatorError::new(format!(
                    "there are more rows than the limit `rows_max` of {limit}"
                )));
            }
            batches.push(batch);
        }
        match pieces {
            [only] => Ok(only.payload.clone()),
            _ => Ok(concatenated(&batches)?.encode()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::Source;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use std::sync::Arc;

    fn piece(number: u32, column: &str, values: &[i64]) -> Piece {
        let column = (column, Arc::new(Int64Array::from(values.to_vec())) as ArrayRef);
        let payload = Batch(RecordBatch::try_from_iter([column]).unwrap()).encode().unwrap();
        Piece { source: Source::Endpoint(number), payload }
    }

    fn up(rows_max: u32, pieces: &[Piece]) -> Result<Batch> {
        let fold = ConcatBatches::open(&Params { rows_max }.encode().unwrap())?;
        Ok(Batch::decode(&fold.fold(pieces)?)?)
    }

    #[test]
    fn rows_follow_each_other() {
        let both = up(5, &[piece(0, "x", &[1, 2]), piece(1, "x", &[3])]).unwrap();
        assert_eq!(both, Batch::decode(&piece(0, "x", &[1, 2, 3]).payload).unwrap());
        assert_eq!(up(5, &[piece(0, "x", &[])]).unwrap().0.num_rows(), 0);
    }

    #[test]
    fn too_many_rows_and_other_schemas_are_refused() {
        let refused = up(2, &[piece(0, "x", &[1, 2]), piece(1, "x", &[3])]).unwrap_err();
        assert_eq!(refused.to_string(), "there are more rows than the limit `rows_max` of 2");
        let refused = up(9, &[piece(0, "x", &[1]), piece(1, "y", &[3])]).unwrap_err();
        assert!(refused.to_string().contains("column `y` differs from column `x`"), "{refused}");
        let junk = Piece { payload: Bytes::from_static(b"junk"), ..piece(7, "x", &[]) };
        let refused = up(9, &[junk]).unwrap_err().to_string();
        assert!(refused.starts_with("the packet of endpoint 7: can't read"), "{refused}");
        let refused = ConcatBatches::open(&Params { rows_max: 0 }.encode().unwrap()).err().expect("refused");
        assert_eq!(refused.to_string(), "parameter `rows_max`: 0 is not within 1 to 16777216");
    }
}
