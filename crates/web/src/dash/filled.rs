//! A form as somebody has filled it in: what was typed is kept, and what is wrong stands beside its field.

use maud::{Markup, html};

use super::form::Form;
use super::reasons;
use super::words::Lang;
use crate::problem::{FieldError, Problem};

/// What stands in the fields of a form, and what is wrong with it.
pub(crate) struct Filled<'a> {
    pub(crate) lang: Lang,
    pub(crate) form: &'a Form,
    pub(crate) problem: Option<&'a Problem>,
}

/// A field: its label, its name, and what helps to fill it in.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) label: &'a str,
    pub(crate) name: &'a str,
    pub(crate) hint: Option<&'a str>,
    /// The type of the input, and what a phone's keyboard is to offer.
    pub(crate) kind: &'a str,
    pub(crate) keys: Option<&'a str>,
    pub(crate) required: bool,
}

impl Default for Field<'_> {
    fn default() -> Self {
        Field { label: "", name: "", hint: None, kind: "text", keys: None, required: false }
    }
}

impl Filled<'_> {
    fn errors<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a FieldError> {
        let errors = self.problem.map(|problem| problem.errors.as_slice()).unwrap_or_default();
        errors.iter().filter(move |error| error.field == name)
    }

    fn about(&self, name: &str, hint: Option<&str>) -> Option<String> {
        let wrong = self.errors(name).next().map(|_| format!("{name}-wrong"));
        let hint = hint.map(|_| format!("{name}-hint"));
        let about: Vec<String> = wrong.into_iter().chain(hint).collect();
        (!about.is_empty()).then(|| about.join(" "))
    }

    fn invalid(&self, name: &str) -> Option<&'static str> {
        self.errors(name).next().map(|_| "true")
    }

    /// What is wrong with something that is several fields together.
    pub(crate) fn wrong(&self, name: &str) -> Markup {
        self.beside(name, None)
    }

    /// What is wrong with the field, and what helps.
    fn beside(&self, name: &str, hint: Option<&str>) -> Markup {
        html! {
            @if self.errors(name).next().is_some() {
                div .wrong id=(format!("{name}-wrong")) {
                    @for error in self.errors(name) { p { (reasons::wrong(self.lang, error)) } }
                }
            }
            @if let Some(hint) = hint { p .hint id=(format!("{name}-hint")) { (hint) } }
        }
    }

    pub(crate) fn input(&self, field: Field<'_>) -> Markup {
        let Field { label, name, hint, kind, keys, required } = field;
        html! {
            div .field {
                label for=(format!("f-{name}")) { (label) }
                input id=(format!("f-{name}")) name=(name) type=(kind) inputmode=[keys] value=(self.form.get(name))
                    autocomplete="off" required[required] aria-invalid=[self.invalid(name)] aria-describedby=[self.about(name, hint)];
                (self.beside(name, hint))
            }
        }
    }

    pub(crate) fn area(&self, field: Field<'_>, rows: u8) -> Markup {
        let Field { label, name, hint, .. } = field;
        html! {
            div .field {
                label for=(format!("f-{name}")) { (label) }
                textarea id=(format!("f-{name}")) name=(name) rows=(rows) spellcheck="false"
                    aria-invalid=[self.invalid(name)] aria-describedby=[self.about(name, hint)] { "\n" (self.form.get(name)) }
                (self.beside(name, hint))
            }
        }
    }

    /// A choice by value and words.
    pub(crate) fn choice(&self, field: Field<'_>, options: &[(String, String)]) -> Markup {
        let Field { label, name, hint, required, .. } = field;
        html! {
            div .field {
                label for=(format!("f-{name}")) { (label) }
                select id=(format!("f-{name}")) name=(name) required[required]
                    aria-invalid=[self.invalid(name)] aria-describedby=[self.about(name, hint)] {
                    @for (value, words) in options { option value=(value) selected[value == self.form.get(name)] { (words) } }
                }
                (self.beside(name, hint))
            }
        }
    }

    /// Several of a few that can be ticked.
    pub(crate) fn ticks(&self, legend: &str, name: &str, options: &[(&str, &str)]) -> Markup {
        html! {
            fieldset .ticks-of aria-describedby=[self.about(name, None)] {
                legend { (legend) }
                div .row { @for (value, words) in options {
                    @let id = format!("f-{name}-{value}");
                    span .tick {
                        input type="checkbox" id=(id) name=(name) value=(value) checked[self.form.all(name).any(|it| it == *value)];
                        label for=(id) { (words) }
                    }
                } }
                (self.beside(name, None))
            }
        }
    }

    /// What is wrong as a whole, above the form: also what belongs to none of its fields.
    pub(crate) fn trouble(&self, fields: &[&str]) -> Markup {
        let Some(problem) = self.problem else { return html! {} };
        let lang = self.lang;
        let elsewhere = problem.errors.iter().filter(|error| !fields.contains(&error.field.as_ref()));
        let elsewhere: Vec<&FieldError> = elsewhere.collect();
        html! {
            div .flash.bad role="alert" {
                p { strong { (lang.problem(problem.code)) } @if !problem.errors.is_empty() { ". " (lang.say("Nothing was kept; what you typed is still here.", "Nada foi gravado; o que você digitou continua aqui.")) } }
                @if problem.errors.is_empty() { p { span lang="en" { (problem.detail) } } p { span lang="en" { (problem.hint) } } }
                @for error in elsewhere { p { code { (error.field) } " " (reasons::wrong(lang, error)) } }
            }
        }
    }
}
