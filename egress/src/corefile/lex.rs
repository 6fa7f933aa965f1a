//! The tokens of a Corefile as Caddy's lexer defines them (github.com/coredns/caddy,
//! caddyfile/lexer.go), with their positions.

use std::ops::Range;

/// A word.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Token {
    /// Without quotes and escapes.
    pub(crate) text: String,
    /// The line of its first character in its file, from 1.
    line: usize,
    /// The line to name in a message: of an imported file that of the import.
    pub(crate) shown_line: usize,
    /// Its byte range in its file, including quotes.
    pub(crate) span: Range<usize>,
    /// The number of its file. 0 is the Corefile itself.
    pub(crate) file: usize,
    /// The number of the import that it comes from. 0 is none.
    pub(crate) import: usize,
}

impl Token {
    /// Whether the other token, which follows, begins on a later line.
    pub(super) fn ends_line(&self, next: &Self) -> bool {
        self.file != next.file || self.last_line() < next.line
    }

    /// Whether the other token, which follows, begins on the same line.
    pub(super) fn shares_line(&self, next: &Self) -> bool {
        self.file == next.file && self.last_line() == next.line
    }

    fn last_line(&self) -> usize {
        self.line + self.text.matches('\n').count()
    }
}

/// Splits at white space. A `"` at the start of a word quotes up to the next `"`; `\` escapes a `"`
/// within. A `#` starts a comment up to the end of the line. Within a word, the comment ends at the next white space.
pub(super) fn tokens(text: &str, file: usize) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut word: Option<Token> = None;
    let (mut comment, mut quoted, mut escaped) = (false, false, false);
    for (at, c) in text.char_indices() {
        if at == 0 && c == '\u{feff}' {
            continue;
        }
        if c == '\n' {
            line += 1;
        }
        let end = at + c.len_utf8();
        if let Some(token) = word.as_mut().filter(|_| quoted) {
            token.span.end = end;
            if c == '"' && !escaped {
                quoted = false;
                tokens.extend(word.take());
                continue;
            }
            if escaped && c != '"' {
                token.text.push('\\');
            }
            escaped = c == '\\' && !escaped;
            if !escaped {
                token.text.push(c);
            }
        } else if c == '\r' {
            // It does not end a word, and is not a part of it.
        } else if c.is_whitespace() {
            comment &= c != '\n' && word.is_none();
            tokens.extend(word.take());
        } else if comment || c == '#' {
            comment = true;
        } else if let Some(token) = &mut word {
            token.text.push(c);
            token.span.end = end;
        } else {
            quoted = c == '"';
            word = Some(Token {
                text: if quoted { String::new() } else { c.into() },
                line,
                shown_line: line,
                span: at..end,
                file,
                import: 0,
            });
        }
    }
    // An open quote ends with the file.
    tokens.extend(word.filter(|token| !token.text.is_empty()));
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        tokens(text, 0)
            .into_iter()
            .map(|token| token.text)
            .collect()
    }

    #[test]
    fn words_quotes_and_comments_are_told_apart() {
        let text = "a.b:53 { # x\n  log \"two words\" \"q\\\"uote \\n\"\n  #y\n  z#z\n}\n";
        assert_eq!(
            texts(text),
            ["a.b:53", "{", "log", "two words", "q\"uote \\n", "z", "}"]
        );
        let lines: Vec<usize> = tokens(text, 0).iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 1, 2, 2, 2, 4, 5]);
    }

    #[test]
    fn each_token_stands_where_it_says() {
        let text = "\u{feff}α \"b c\" d";
        let spans = tokens(text, 0).into_iter().map(|token| &text[token.span]);
        assert_eq!(spans.collect::<Vec<_>>(), ["α", "\"b c\"", "d"]);
    }

    /// As in CoreDNS.
    #[test]
    fn a_comment_within_a_word_ends_with_the_next_white_space() {
        assert_eq!(
            texts("errors#a stdout#b c\nlog"),
            ["errors", "stdout", "c", "log"]
        );
        assert_eq!(texts("# a b\nlog"), ["log"]);
    }

    #[test]
    fn an_open_quote_ends_with_the_file() {
        assert_eq!(texts("a \"b\nc"), ["a", "b\nc"]);
        assert_eq!(texts("a \""), ["a"]);
        assert_eq!(texts("a \"\" \"x\"y"), ["a", "", "x", "y"]);
    }
}
