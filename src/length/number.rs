//! Whole numbers in a request, in digits ("1,000") or in English words ("two hundred fifty").

/// A number, and which tokens of the request it took.
pub(super) struct Amount {
    pub value: u32,
    pub start: usize,
    pub end: usize,
}

/// All numbers of a request, from left to right.
pub(super) fn amounts(tokens: &[&str]) -> Vec<Amount> {
    let mut amounts = Vec::new();
    let mut start = 0;
    while start < tokens.len() {
        let found = number(&tokens[start..]);
        let end = start + found.map_or(1, |(_, length)| length);
        amounts.extend(found.map(|(value, _)| Amount { value, start, end }));
        start = end;
    }
    amounts
}

/// The number that the tokens begin with, and how many of them it takes.
///
/// It never takes an "and": "between one hundred and two hundred" has two numbers.
fn number(tokens: &[&str]) -> Option<(u32, usize)> {
    if let [count, "hundred", rest @ ..] = tokens
        && let Some(hundreds) = if *count == "a" { Some(1) } else { one_to_nine(count) }
    {
        let (more, length) = below_hundred(rest).unwrap_or((0, 0));
        return Some((hundreds * 100 + more, 2 + length));
    }
    match tokens.first()? {
        &"single" => Some((1, 1)),
        first => below_hundred(tokens).or_else(|| Some((digits(first)?, 1))),
    }
}

fn below_hundred(tokens: &[&str]) -> Option<(u32, usize)> {
    const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let (first, rest) = tokens.split_first()?;
    let Some(tens) = (20..).step_by(10).zip(TENS).find_map(|(value, word)| (word == *first).then_some(value)) else {
        return Some((below_twenty(first)?, 1));
    };
    let (ones, length) = match rest {
        ["-", ones, ..] => (one_to_nine(ones), 3),
        [ones, ..] => (one_to_nine(ones), 2),
        [] => (None, 1),
    };
    Some(ones.map_or((tens, 1), |ones| (tens + ones, length)))
}

fn one_to_nine(word: &str) -> Option<u32> {
    below_twenty(word).filter(|value| (1..=9).contains(value))
}

fn below_twenty(word: &str) -> Option<u32> {
    const WORDS: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen \
                         sixteen seventeen eighteen nineteen";
    (0..).zip(WORDS.split(' ')).find_map(|(value, name)| (name == word).then_some(value))
}

/// Digits, with commas only where thousands have them: "20,30" is no number.
fn digits(token: &str) -> Option<u32> {
    let mut groups = token.split(',');
    let first = groups.next()?;
    let grouped = token.len() > first.len();
    let plain = token.chars().all(|c| c.is_ascii_digit() || c == ',');
    let thousands = (1..=3).contains(&first.len()) && !first.starts_with('0') && groups.all(|group| group.len() == 3);
    if !plain || grouped && !thousands {
        return None;
    }
    token.replace(',', "").parse().ok()
}
