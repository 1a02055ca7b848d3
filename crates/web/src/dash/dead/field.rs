//! A field that says beside itself what is wrong with what was filled in.

use maud::{Markup, html};

use crate::dash::words::Lang;
use crate::problem::{FieldError, Problem};

/// What is filled in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Line,
    Number,
    Lines,
}

pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    /// The id of its element: a name may hold anything.
    pub(super) id: &'a str,
    pub(super) label: Markup,
    pub(super) value: &'a str,
    pub(super) input: Input,
    pub(super) hint: Option<&'a str>,
    pub(super) wrong: Vec<Wrong>,
}

/// What is wrong with a field: in the reader's own words, or in those of the API.
#[derive(Clone)]
pub(super) enum Wrong {
    Own(String),
    Told(FieldError),
}

impl Wrong {
    pub(super) fn said(&self, lang: Lang) -> Markup {
        match self {
            Wrong::Own(words) => html! { (words) },
            Wrong::Told(error) => html! {
                (lang.problem(error.code)) ": "
                span lang="en" { (error.field) " " (error.reason) @if !error.hint.is_empty() { "; " (error.hint) } }
            },
        }
    }
}

/// What is wrong, by field, and what lies in none of those that are shown.
#[derive(Clone, Default)]
pub(super) struct Wrongs {
    fields: Vec<(String, Wrong)>,
    pub(super) problem: Option<Problem>,
}

impl Wrongs {
    pub(super) fn own(&mut self, field: &str, words: impl Into<String>) {
        self.fields.push((field.to_owned(), Wrong::Own(words.into())));
    }

    /// What the API says. Where it names fields, each goes to its own.
    pub(super) fn told(problem: Problem) -> Wrongs {
        match problem.errors.is_empty() {
            true => Wrongs { problem: Some(problem), ..Wrongs::default() },
            false => {
                let fields = problem.errors.into_iter().map(|it| (it.field.to_string(), Wrong::Told(it)));
                Wrongs { fields: fields.collect(), problem: None }
            }
        }
    }

    /// And what the API says beside that.
    pub(super) fn also(&mut self, problem: Problem) {
        let told = Wrongs::told(problem);
        self.fields.extend(told.fields);
        self.problem = told.problem;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.problem.is_none()
    }

    /// Takes out what is wrong with a field, or with something inside of it.
    pub(super) fn take(&mut self, field: &str) -> Vec<Wrong> {
        let inside = |name: &str| {
            let rest = name.strip_prefix(field);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '/']))
        };
        let (own, others) = std::mem::take(&mut self.fields).into_iter().partition(|(name, _)| inside(name));
        self.fields = others;
        let own: Vec<(String, Wrong)> = own;
        own.into_iter().map(|(_, wrong)| wrong).collect()
    }

    /// What is left when every field has taken its own: told above them.
    pub(super) fn rest(&self, lang: Lang) -> Markup {
        html! {
            @if let Some(problem) = &self.problem {
                p .flash.bad role="alert" {
                    strong { (lang.problem(problem.code)) }
                    @if !problem.detail.is_empty() { ": " span lang="en" { (problem.detail) @if !problem.hint.is_empty() { "; " (problem.hint) } } }
                }
            }
            @for (_, wrong) in &self.fields { p .flash.bad role="alert" { (wrong.said(lang)) } }
        }
    }
}

impl Field<'_> {
    pub(super) fn drawn(&self, lang: Lang) -> Markup {
        let (hint, wrong) = (format!("{}-hint", self.id), format!("{}-wrong", self.id));
        let bad = !self.wrong.is_empty();
        let about: Vec<&str> = [(bad, &wrong), (self.hint.is_some(), &hint)]
            .into_iter()
            .filter(|it| it.0)
            .map(|it| it.1.as_str())
            .collect();
        let about = Some(about.join(" ")).filter(|about| !about.is_empty());
        let invalid = bad.then_some("true");
        // A text that begins with a line break would lose it.
        let lines = self.value.lines().count().clamp(3, 24) + 1;
        html! {
            div .field {
                label for=(self.id) { (self.label) }
                @match self.input {
                    Input::Line => input id=(self.id) name=(self.name) value=(self.value) autocomplete="off" aria-invalid=[invalid] aria-describedby=[about];,
                    Input::Number => input id=(self.id) name=(self.name) value=(self.value) inputmode="numeric" autocomplete="off" aria-invalid=[invalid] aria-describedby=[about];,
                    Input::Lines => textarea id=(self.id) name=(self.name) rows=(lines) spellcheck="false" aria-invalid=[invalid] aria-describedby=[about] { "\n" (self.value) },
                }
                @if bad { p .wrong id=(wrong) { @for it in &self.wrong { span { (it.said(lang)) "." } " " } } }
                @if let Some(words) = self.hint { p .hint id=(hint) { (words) } }
            }
        }
    }
}
