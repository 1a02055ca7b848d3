//! What a template may say: checked on its syntax tree, before anything of it runs.

use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Stmt};
use minijinja::machinery::{Token, parse, tokenize};
use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind};

use super::{OUTPUT_BYTES_MAX, QUOTE_MAX, Said, filters};

pub(super) const SYNTAX_HINT: &str =
    "write {{ name }} for a value, {% if name %}…{% endif %} and {% for item in list %}…{% endfor %}";

/// Words and signs in one tag, and `elif`s in one part. A syntax tree is as deep as its longest chain, and is
/// walked by recursion, ours and the engine's.
const TAG_TOKENS_MAX: usize = 200;
const ELIFS_MAX: usize = 100;

/// Refuses what could make a value grow without bound, or reach beyond the payload; says what and what to do.
pub(super) fn check(source: &str) -> Result<(), (String, String)> {
    let (mut tokens, mut elifs) = (0, 0);
    // What cannot be read is told by the parser, in its words.
    for (token, span) in tokenize(source, false, Default::default()).map_while(Result::ok) {
        match token {
            Token::VariableStart | Token::BlockStart => tokens = 0,
            Token::TemplateData(_) => {}
            Token::Ident("elif") => elifs += 1,
            _ => tokens += 1,
        }
        if tokens > TAG_TOKENS_MAX || elifs > ELIFS_MAX {
            let what = format!("line {}: a tag or a chain of `elif` is too long", span.start_line);
            return Err((what, "compute it before, and put it in the payload".to_owned()));
        }
    }
    let tree = parse(source, "template", Default::default()).map_err(|error| {
        let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
        (format!("{line}{}", reason(&error, source)), SYNTAX_HINT.to_owned())
    })?;
    statement(&tree).map_err(|Refused { line, what, hint }| (format!("line {line}: {what}"), hint.to_owned()))
}

struct Refused {
    line: u16,
    what: String,
    hint: &'static str,
}

type Checked = Result<(), Refused>;

fn refuse(line: u16, what: impl Into<String>, hint: &'static str) -> Checked {
    Err(Refused { line, what: what.into(), hint })
}

fn all(statements: &[Stmt<'_>]) -> Checked {
    statements.iter().try_for_each(statement)
}

fn statement(statement: &Stmt<'_>) -> Checked {
    const PLAIN: &str = "use if, for, set and with";
    match statement {
        Stmt::Template(it) => all(&it.children),
        Stmt::EmitRaw(_) => Ok(()),
        Stmt::EmitExpr(it) => expression(&it.expr),
        Stmt::ForLoop(it) => {
            expression(&it.iter)?;
            it.filter_expr.iter().try_for_each(expression)?;
            all(&it.body)?;
            all(&it.else_body)
        }
        Stmt::IfCond(it) => {
            expression(&it.expr)?;
            all(&it.true_body)?;
            all(&it.false_body)
        }
        Stmt::Set(it) => expression(&it.expr),
        Stmt::WithBlock(it) => {
            it.assignments.iter().try_for_each(|(_, value)| expression(value))?;
            all(&it.body)
        }
        Stmt::SetBlock(it) => refuse(it.span().start_line, "`set` as a block is not in the language", PLAIN),
        Stmt::AutoEscape(it) => {
            refuse(it.span().start_line, "`autoescape` is not in the language", "mark a value with |safe")
        }
        Stmt::FilterBlock(it) => refuse(
            it.span().start_line,
            "`filter` is not in the language",
            "filter each value: {{ name|upper }}",
        ),
        Stmt::Do(it) => refuse(it.span().start_line, "`do` is not in the language", PLAIN),
    }
}

fn expressions<'a>(many: impl IntoIterator<Item = &'a Expr<'a>>) -> Checked {
    many.into_iter().try_for_each(expression)
}

fn arguments(arguments: &[CallArg<'_>]) -> Checked {
    arguments.iter().try_for_each(|argument| match argument {
        CallArg::Pos(value) | CallArg::Kwarg(_, value) => expression(value),
        CallArg::PosSplat(value) | CallArg::KwargSplat(value) => {
            refuse(value.span().start_line, "a list cannot be spread into arguments", "write them out")
        }
    })
}

fn expression(it: &Expr<'_>) -> Checked {
    let line = it.span().start_line;
    let constant = |it: &Expr<'_>| matches!(it, Expr::Const(_));
    match it {
        Expr::Var(_) | Expr::Const(_) => Ok(()),
        Expr::UnaryOp(it) => expression(&it.expr),
        Expr::BinOp(it) => {
            operator(line, it.op, &it.left, &it.right)?;
            expressions([&it.left, &it.right])
        }
        Expr::Compare(it) => {
            expression(&it.expr)?;
            it.ops.iter().try_for_each(|op| expression(&op.expr))
        }
        Expr::IfExpr(it) => {
            expressions([&it.test_expr, &it.true_expr])?;
            it.false_expr.iter().try_for_each(expression)
        }
        Expr::Filter(it) => {
            if !filters::FILTERS.contains(&it.name) {
                return refuse(line, format!("there is no filter {}", quoted(it.name)), filters::HINT);
            }
            it.expr.iter().try_for_each(expression)?;
            arguments(&it.args)
        }
        Expr::Test(it) => {
            if !filters::TESTS.contains(&it.name) {
                return refuse(line, format!("there is no test {}", quoted(it.name)), filters::TESTS_HINT);
            }
            expression(&it.expr)?;
            arguments(&it.args)
        }
        Expr::GetAttr(it) => expression(&it.expr),
        Expr::GetItem(it) => expressions([&it.expr, &it.subscript_expr]),
        Expr::Slice(_) => refuse(line, "a part of a value cannot be cut out", "use |truncate(20)"),
        Expr::Call(_) => {
            refuse(line, "nothing can be called", "compute it before, and put it in the payload")
        }
        Expr::List(it) if it.items.iter().all(constant) => Ok(()),
        Expr::Tuple(it) if it.items.iter().all(constant) => Ok(()),
        Expr::List(_) | Expr::Tuple(_) | Expr::Map(_) => {
            refuse(line, "a list can hold only constants", "compute it before, and put it in the payload")
        }
    }
}

/// Sums and products of numbers are no danger, of texts and lists they are; which it is shows only when it runs.
fn operator(line: u16, operator: BinOpKind, left: &Expr<'_>, right: &Expr<'_>) -> Checked {
    let number =
        |it: &Expr<'_>| matches!(it, Expr::Const(constant) if constant.value.kind() == ValueKind::Number);
    match operator {
        BinOpKind::Concat => refuse(line, "`~` is not in the language", "write {{ a }}{{ b }}"),
        BinOpKind::Mul | BinOpKind::Pow => {
            refuse(line, "values cannot be multiplied", "compute it before, and put it in the payload")
        }
        BinOpKind::Add if !number(left) && !number(right) => {
            refuse(line, "only a number can be added", "write {{ a }}{{ b }} to join texts")
        }
        _ => Ok(()),
    }
}

/// What went wrong, in words that hold nothing of the payload.
pub(super) fn reason(error: &Error, source: &str) -> String {
    use std::error::Error as _;
    if let Some(Said(words)) = error.source().and_then(|source| source.downcast_ref()) {
        return match expression_at(error, source) {
            Some(expression) => format!("{expression} {words}"),
            None => (*words).to_owned(),
        };
    }
    let at = || expression_at(error, source).unwrap_or_else(|| "a value".to_owned());
    match error.kind() {
        ErrorKind::UndefinedError => {
            // The engine knows the very name, where the whole expression is longer.
            let name = error.detail().and_then(|detail| detail.split('`').nth(1)).map(quoted);
            format!("{} is not in the payload", name.unwrap_or_else(at))
        }
        ErrorKind::OutOfFuel => "it takes too many steps; are there loops within loops?".to_owned(),
        ErrorKind::WriteFailure => format!("the result has more than {OUTPUT_BYTES_MAX} bytes"),
        // Said of the template's own text, before there is any payload.
        ErrorKind::SyntaxError => {
            let detail = error.detail().unwrap_or("it cannot be read");
            detail.chars().take(2 * QUOTE_MAX).collect()
        }
        ErrorKind::MissingArgument | ErrorKind::TooManyArguments => {
            format!("{} has too few or too many arguments", at())
        }
        _ => format!("{} cannot be computed from this payload", at()),
    }
}

/// The part of the template that the error speaks of.
fn expression_at(error: &Error, source: &str) -> Option<String> {
    let range = error.range()?;
    let before = source.get(..range.start)?;
    // Of a filter the engine names the filter alone; what it was given stands before it in the same tag.
    let tag = before.rfind("{{").max(before.rfind("{%")).filter(|_| before.trim_end().ends_with('|'));
    let text = source.get(tag.map_or(range.start, |tag| tag + 2)..range.end)?;
    Some(text.trim_start_matches('-').trim()).filter(|text| !text.is_empty()).map(quoted)
}

fn quoted(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(QUOTE_MAX).collect();
    let more = if text.chars().nth(QUOTE_MAX).is_some() { "…" } else { "" };
    format!("`{flat}{more}`")
}
