use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::Truth;

/// Compares two numbers exactly, whole ones with fractions too; `None` where one is not held exactly.
pub(super) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        (Some(a), None) => whole_with_fraction(a, fraction(b)?),
        (None, Some(b)) => whole_with_fraction(b, fraction(a)?).map(Ordering::reverse),
        (None, None) => fraction(a)?.partial_cmp(&fraction(b)?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn fraction(number: &Number) -> Option<f64> {
    number.as_f64().filter(|number| number.is_finite())
}

fn whole_with_fraction(whole: i128, fraction: f64) -> Option<Ordering> {
    // Beyond any whole number there is here, and so that the cast below is exact.
    const FAR: f64 = 1e30;

    if fraction >= FAR {
        return Some(Ordering::Less);
    }
    if fraction <= -FAR {
        return Some(Ordering::Greater);
    }
    let floor = fraction.floor();
    match whole.cmp(&(floor as i128)) {
        Ordering::Equal if fraction > floor => Some(Ordering::Less),
        order => Some(order),
    }
}

/// Whether two values are equal, numbers by what they are worth. Values of different kinds are neither equal nor different: a tool may
/// read `"1"` where it wants a `1`.
pub(super) fn equal(a: &Value, b: &Value) -> Truth {
    match (a, b) {
        (Value::Null, Value::Null) => Truth::True,
        (Value::Bool(a), Value::Bool(b)) => (a == b).into(),
        (Value::String(a), Value::String(b)) => (a == b).into(),
        (Value::Number(a), Value::Number(b)) => compare(a, b).map_or(Truth::Unknown, |order| order.is_eq().into()),
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => a.iter().zip(b).fold(Truth::True, |all, (a, b)| all.and(equal(a, b))),
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            a.iter().fold(Truth::True, |all, (key, a)| all.and(b.get(key).map_or(Truth::False, |b| equal(a, b))))
        }
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => Truth::False,
        _ => Truth::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_compare_exactly() {
        for (less, more) in [
            ("9007199254740992", "9007199254740993"),
            ("9007199254740992.0", "9007199254740993"),
            ("-1.5", "-1"),
            ("-2", "-1.5"),
            ("1", "1.0000000000000002"),
            ("18446744073709551615", "1e300"),
            ("-1e300", "-9223372036854775808"),
        ] {
            assert_eq!(compare(&number(less), &number(more)), Some(Ordering::Less), "{less} {more}");
            assert_eq!(compare(&number(more), &number(less)), Some(Ordering::Greater), "{less} {more}");
        }
        assert_eq!(compare(&number("1"), &number("1.0")), Some(Ordering::Equal));
        assert_eq!(compare(&number("0"), &number("-0.0")), Some(Ordering::Equal));
    }
}
