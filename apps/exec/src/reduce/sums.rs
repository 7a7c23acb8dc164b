//! Sums of the numbers in lines.

use super::decimal::Decimal;
use super::lines::{of, shown};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Width of the numbers of `uniq -c`.
const COUNT_COLUMNS: usize = 7;

/// Adds numbers: by the key before the last tab if lines have one, else line by line and column by column.
pub(super) fn sum_lines(texts: &[&Bytes]) -> Result<Vec<u8>, String> {
    let mut rows: Vec<Vec<Decimal>> = Vec::new();
    let mut keys: BTreeMap<&[u8], Decimal> = BTreeMap::new();
    for text in texts {
        for (at, line) in of(text).enumerate() {
            match line.iter().rposition(|&byte| byte == b'\t') {
                Some(tab) => add(keys.entry(&line[..tab]).or_default(), &line[tab + 1..], line)?,
                None => {
                    if at == rows.len() {
                        rows.push(Vec::new());
                    }
                    add_columns(&mut rows[at], line)?;
                }
            }
        }
    }
    if !rows.is_empty() && !keys.is_empty() {
        return Err("some lines have a key and a tab, and others have not".to_owned());
    }
    let mut out = String::new();
    for row in rows {
        let row: Vec<String> = row.iter().map(Decimal::to_string).collect();
        out.push_str(&row.join(" "));
        out.push('\n');
    }
    let mut out = out.into_bytes();
    for (key, sum) in keys {
        out.extend_from_slice(key);
        out.extend_from_slice(format!("\t{sum}\n").as_bytes());
    }
    Ok(out)
}

/// Adds a line of numbers to a row, column by column. A row of no columns is new.
fn add_columns(row: &mut Vec<Decimal>, line: &[u8]) -> Result<(), String> {
    let columns = || line.split(u8::is_ascii_whitespace).filter(|column| !column.is_empty());
    let count = columns().count();
    if row.is_empty() {
        row.resize(count, Decimal::default());
    }
    if count == 0 || row.len() != count {
        let expected = if count == 0 { "a number".to_owned() } else { format!("{} numbers", row.len()) };
        return Err(format!("expected {expected} in the line {}, as in other partitions", shown(line)));
    }
    columns().zip(row).try_for_each(|(column, sum)| add(sum, column, line))
}

/// Adds the numbers of equal keys, in the format of `uniq -c`.
pub(super) fn sum_counts(texts: &[&Bytes]) -> Result<Vec<u8>, String> {
    let mut keys: BTreeMap<&[u8], Decimal> = BTreeMap::new();
    for line in texts.iter().flat_map(|text| of(text)) {
        let start = line.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(line.len());
        let rest = &line[start..];
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        // One blank separates; further ones belong to the key.
        let key = rest.get(end + 1..).unwrap_or_default();
        add(keys.entry(key).or_default(), &rest[..end], line)?;
    }
    let mut out = Vec::new();
    for (key, sum) in keys {
        out.extend_from_slice(format!("{:>COUNT_COLUMNS$} ", sum.to_string()).as_bytes());
        out.extend_from_slice(key);
        out.push(b'\n');
    }
    Ok(out)
}

fn add(sum: &mut Decimal, text: &[u8], line: &[u8]) -> Result<(), String> {
    let text = text.trim_ascii();
    let number = Decimal::read(text)
        .map_err(|error| format!("{} in the line {} is {error}", shown(text), shown(line)))?;
    *sum = sum.checked_add(number).ok_or_else(|| format!("the sum of {} gets too large", shown(line)))?;
    Ok(())
}
