//! Numbers and times in words, as SmolVLM2 was trained to read them.

const SMALL: [&str; 20] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
];
const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// A number in English words, as the Python package `num2words` writes it: `twenty-one`, `one hundred and five`.
pub fn number(number: usize) -> String {
    match number {
        0..20 => SMALL[number].to_owned(),
        20..100 if number.is_multiple_of(10) => TENS[number / 10].to_owned(),
        20..100 => format!("{}-{}", TENS[number / 10], SMALL[number % 10]),
        100..1000 if number.is_multiple_of(100) => format!("{} hundred", SMALL[number / 100]),
        100..1000 => format!("{} hundred and {}", SMALL[number / 100], self::number(number % 100)),
        _ => {
            let (thousands, rest) = (self::number(number / 1000), number % 1000);
            match rest {
                0 => format!("{thousands} thousand"),
                1..100 => format!("{thousands} thousand and {}", self::number(rest)),
                _ => format!("{thousands} thousand, {}", self::number(rest)),
            }
        }
    }
}

/// A length of time in whole seconds, as Python's `str(timedelta(seconds=…))` writes it: `0:01:05`, `1 day, 0:00:00`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let time = format!("{hours}:{minutes:02}:{:02}", seconds % 60);
    match days {
        0 => time,
        1 => format!("1 day, {time}"),
        _ => format!("{days} days, {time}"),
    }
}

/// A moment in whole minutes and seconds, cut off: `00:07`.
pub fn moment(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}
