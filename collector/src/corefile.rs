//! Corefiles of CoreDNS servers that should stream to the collector.
//!
//! - `lex`, [`parse`](parse()): server blocks and directives, with their positions.
//! - `lint`: which blocks answer for external names, whether they stream, and what hides names.
//! - [`live`]: checks the Corefile in the cluster whenever it changes.

pub mod args;
mod lex;
mod lint;
pub mod live;
mod parse;

pub use self::{
    lex::Token,
    lint::{Effective, Finding, INDENT, Imports, Line, Scope, bypasses, findings, said},
    parse::{Block, Corefile, Directive, SyntaxError, parse},
};

/// The key of a ConfigMap with a Corefile.
pub const KEY: &str = "Corefile";
