//! The server blocks and directives of a Corefile as Caddy's parser defines them
//! (caddyfile/parse.go), with their positions.

use std::{collections::BTreeMap, ops::Range};

use super::lex::{Token, tokens};

/// Why a text is no Corefile, and where.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub(crate) struct SyntaxError {
    /// The line, from 1.
    pub(crate) line: usize,
    pub(crate) problem: String,
}

/// The content of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Corefile {
    pub(crate) blocks: Vec<Block>,
    /// `(name) { … }`, for imports.
    pub(crate) snippets: BTreeMap<String, Block>,
    /// Imports in place of server blocks.
    pub(crate) imports: Vec<Directive>,
}

/// A server block, or a snippet.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Its zones and ports.
    pub(crate) keys: Vec<String>,
    /// The line of the first key.
    pub(crate) line: usize,
    /// The position after the opening brace, or after the keys if there are no braces.
    pub(crate) body: usize,
    /// Its directives, including imports.
    pub(crate) directives: Vec<Directive>,
}

/// A plugin's name with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    pub(crate) name: String,
    /// The arguments before its own block.
    pub(crate) args: Vec<Token>,
    /// Each word of its own block.
    pub(crate) nested: Vec<Token>,
    pub(crate) line: usize,
    /// From its name to its last word or brace.
    pub(crate) span: Range<usize>,
}

impl Directive {
    /// The n-th argument, from 0.
    pub(crate) fn arg(&self, n: usize) -> Option<&str> {
        self.args.get(n).map(|token| token.text.as_str())
    }
}

pub(crate) fn parse(text: &str) -> Result<Corefile, SyntaxError> {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    let mut corefile = Corefile::default();
    while let Some(token) = parser.peek() {
        if token.text == "import" {
            let import = parser.directive()?;
            corefile.imports.push(import);
            continue;
        }
        let block = parser.block()?;
        match block.keys.as_slice() {
            [only] if only.starts_with('(') && only.ends_with(')') => {
                let name = only.trim_matches(['(', ')']).to_owned();
                if corefile.snippets.contains_key(&name) {
                    let problem = format!("a second snippet ({name})");
                    return Err(error(block.line, problem));
                }
                corefile.snippets.insert(name, block);
            }
            _ => corefile.blocks.push(block),
        }
    }
    Ok(corefile)
}

fn error(line: usize, problem: impl Into<String>) -> SyntaxError {
    SyntaxError {
        line,
        problem: problem.into(),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    /// Keys on one line, or on several if each line but the last ends with a comma.
    fn block(&mut self) -> Result<Block, SyntaxError> {
        let mut block = Block {
            keys: Vec::new(),
            line: self.peek().map_or(0, |token| token.line),
            body: 0,
            directives: Vec::new(),
        };
        let (mut line, mut another) = (block.line, false);
        let mut braced = false;
        while let Some(token) = self.peek() {
            if token.text == "{" {
                if another || block.keys.is_empty() {
                    return Err(error(token.line, "a key is missing before `{`"));
                }
                braced = true;
                block.body = token.span.end;
                line = token.line;
                self.at += 1;
                break;
            }
            if token.line != line && !another {
                break;
            }
            another = token.text.ends_with(',');
            line = token.line;
            block.body = token.span.end;
            block.keys.push(token.text.trim_end_matches(',').to_owned());
            self.at += 1;
        }
        if block.keys.iter().any(|key| key == "}") {
            return Err(error(block.line, "a `}` too many"));
        }
        while let Some(token) = self.peek() {
            if token.text == "}" {
                if !braced {
                    return Err(error(token.line, "a `}` too many"));
                }
                self.at += 1;
                return Ok(block);
            }
            let directive = self.directive()?;
            block.directives.push(directive);
        }
        if braced {
            let problem = format!(
                "the `{{` of this line has no `}}`, in {}",
                block.keys.join(" ")
            );
            return Err(error(line, problem));
        }
        Ok(block)
    }

    /// A name with the rest of its line, and its block if one opens there.
    fn directive(&mut self) -> Result<Directive, SyntaxError> {
        let Some(name) = self.next() else {
            return Err(error(0, "a directive is missing"));
        };
        let mut directive = Directive {
            line: name.line,
            span: name.span.clone(),
            name: name.text,
            args: Vec::new(),
            nested: Vec::new(),
        };
        if directive.name == "{" {
            return Err(error(directive.line, "a `{` instead of a directive"));
        }
        let (mut depth, mut line) = (0_usize, directive.line);
        while let Some(token) = self.peek() {
            match token.text.as_str() {
                "{" => depth += 1,
                "}" if depth > 0 => depth -= 1,
                _ if depth == 0 && token.line != line => break,
                "}" => {
                    let problem = format!("a `}}` behind `{}` on its line", directive.name);
                    return Err(error(token.line, problem));
                }
                _ if depth == 0 => directive.args.push(token.clone()),
                _ => directive.nested.push(token.clone()),
            }
            line = token.line;
            directive.span.end = token.span.end;
            self.at += 1;
        }
        if depth > 0 {
            let problem = format!("the block of `{}` has no `}}`", directive.name);
            return Err(error(directive.line, problem));
        }
        Ok(directive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(block: &Block) -> Vec<&str> {
        block.directives.iter().map(|it| it.name.as_str()).collect()
    }

    #[test]
    fn blocks_snippets_and_imports_are_found() {
        let text = "
(common) {
    errors
}
import more/*.server
a.example, b.example:5353 ,
c.example {
    import common
    kubernetes cluster.local {
        pods insecure
        fallthrough
    }
    forward . 192.0.2.1
}
";
        let corefile = parse(text).unwrap();
        assert_eq!(names(&corefile.snippets["common"]), ["errors"]);
        assert_eq!(corefile.imports[0].arg(0), Some("more/*.server"));
        let [block] = corefile.blocks.as_slice() else {
            panic!("{corefile:?}");
        };
        assert_eq!(block.line, 6);
        assert_eq!(names(block), ["import", "kubernetes", "forward"]);
        let kubernetes = &block.directives[1];
        let nested: Vec<&str> = kubernetes
            .nested
            .iter()
            .map(|it| it.text.as_str())
            .collect();
        assert_eq!(nested, ["pods", "insecure", "fallthrough"]);
        assert!(text[kubernetes.span.clone()].ends_with("fallthrough\n    }"));
    }

    #[test]
    fn one_server_needs_no_braces() {
        let corefile = parse("example.org\nwhoami\nlog\n").unwrap();
        assert_eq!(names(&corefile.blocks[0]), ["whoami", "log"]);
    }

    #[test]
    fn what_is_no_corefile_is_an_error_with_its_line() {
        for (text, line, words) in [
            (". {\n  errors\n", 1, "has no `}`"),
            (". {\n  errors }\n", 2, "behind `errors`"),
            (". {\n  kubernetes x {\n", 2, "`kubernetes`"),
            ("}\n", 1, "too many"),
            (". {\n}\n}\n", 3, "too many"),
            ("a,\n{\n}\n", 2, "key"),
            ("(a) {\n}\n(a) {\n}\n", 3, "second snippet"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.problem.contains(words), "{text}: {error}");
        }
    }
}
