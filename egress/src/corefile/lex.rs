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
