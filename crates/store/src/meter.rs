//! What rooms measure themselves with: numbers that a scrape of `/metrics` shows.
//!
//! Names and label names are fixed in the code, so a metric that cannot be made is a slip that the first test finds.
//! Label values come from configuration and from fixed lists, never from messages or callers.

mod counts;
mod retries;

use std::collections::HashMap;
use std::fmt;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

pub use counts::Counts;
pub use retries::Retries;

const FIXED: &str = "names of metrics are fixed and sound";

pub fn counter(name: &str, help: &str) -> IntCounter {
    IntCounter::new(name, help).expect(FIXED)
}

/// One of several counters of a name, told apart by a label whose value never changes.
fn counter_of(name: &str, help: &str, label: (&str, &str)) -> IntCounter {
    IntCounter::with_opts(Opts::new(name, help).const_label(label.0, label.1)).expect(FIXED)
}

pub fn gauge(name: &str, help: &str) -> IntGauge {
    IntGauge::new(name, help).expect(FIXED)
}

pub fn histogram(name: &str, help: &str, buckets: &[f64]) -> Histogram {
    Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec())).expect(FIXED)
}

/// One of several histograms of a name, told apart by a label whose value never changes.
fn histogram_of(name: &str, help: &str, buckets: &[f64], label: (&str, &str)) -> Histogram {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    Histogram::with_opts(options.const_label(label.0, label.1)).expect(FIXED)
}

/// Gauges by one label.
pub fn gauges(name: &str, help: &str, label: &str) -> IntGaugeVec {
    IntGaugeVec::new(Opts::new(name, help), &[label]).expect(FIXED)
}

/// Histograms by one label.
pub fn histograms(name: &str, help: &str, label: &str, buckets: &[f64]) -> HistogramVec {
    HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), &[label]).expect(FIXED)
}

/// Shows a metric from now on.
pub fn show(registry: &Registry, metric: impl Collector + 'static) {
    registry.register(Box::new(metric)).expect(FIXED);
}

/// Numbers of one name that are kept elsewhere, and laid out when somebody looks.
///
/// Vectors of the library find a number by its label values run together, so that `("a", "bc")` and `("ab", "c")` are
/// one to them. Names of lanes and channels are anybody's choice, so they are kept apart here.
#[derive(Clone, Debug)]
pub struct Family {
    desc: Desc,
    kind: MetricType,
}

impl Family {
    pub fn gauge(name: &str, help: &str, labels: &[&str]) -> Family {
        Family::new(name, help, labels, MetricType::GAUGE)
    }

    pub fn counter(name: &str, help: &str, labels: &[&str]) -> Family {
        Family::new(name, help, labels, MetricType::COUNTER)
    }

    pub fn histogram(name: &str, help: &str, labels: &[&str]) -> Family {
        Family::new(name, help, labels, MetricType::HISTOGRAM)
    }

    fn new(name: &str, help: &str, labels: &[&str], kind: MetricType) -> Family {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, HashMap::new());
        Family { desc: desc.expect(FIXED), kind }
    }

    /// The family with these numbers, each by the values of its labels.
    pub fn with<'a, const N: usize>(
        &self,
        numbers: impl IntoIterator<Item = ([&'a str; N], f64)>,
    ) -> MetricFamily {
        self.of(numbers.into_iter().map(|(values, number)| {
            let mut metric = Metric::from_label(self.labels(&values));
            match self.kind {
                MetricType::COUNTER => {
                    let mut counter = Counter::default();
                    counter.set_value(number);
                    metric.set_counter(counter);
                }
                _ => {
                    let mut gauge = Gauge::default();
                    gauge.set_value(number);
                    metric.set_gauge(gauge);
                }
            }
            metric
        }))
    }

    /// The family with histograms, each by the values of its labels.
    pub fn with_histograms<'a, const N: usize>(
        &self,
        histograms: impl IntoIterator<Item = ([&'a str; N], prometheus::proto::Histogram)>,
    ) -> MetricFamily {
        self.of(histograms.into_iter().map(|(values, histogram)| {
            let mut metric = Metric::from_label(self.labels(&values));
            metric.set_histogram(histogram);
            metric
        }))
    }

    fn of(&self, metrics: impl Iterator<Item = Metric>) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(self.kind);
        family.set_metric(metrics.collect());
        family
    }

    fn labels(&self, values: &[&str]) -> Vec<LabelPair> {
        let pair = |(name, value): (&String, &&str)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.clone());
            pair.set_value((*value).to_owned());
            pair
        };
        self.desc.variable_labels.iter().zip(values).map(pair).collect()
    }
}

/// Families that are laid out together, by whoever knows their numbers.
pub struct Sheet<const N: usize, F> {
    families: [Family; N],
    lay_out: F,
}

impl<const N: usize, F: Fn(&[Family; N]) -> Vec<MetricFamily> + Send + Sync> Sheet<N, F> {
    pub fn new(families: [Family; N], lay_out: F) -> Sheet<N, F> {
        Sheet { families, lay_out }
    }
}

impl<const N: usize, F> fmt::Debug for Sheet<N, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sheet").field("families", &self.families).finish_non_exhaustive()
    }
}

impl<const N: usize, F: Fn(&[Family; N]) -> Vec<MetricFamily> + Send + Sync> Collector for Sheet<N, F> {
    fn desc(&self) -> Vec<&Desc> {
        self.families.iter().map(|family| &family.desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        (self.lay_out)(&self.families)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_whose_labels_run_together_stay_apart() {
        let families = [Family::gauge("waiting", "How many wait.", &["lane", "channel"])];
        let registry = Registry::new();
        let lay_out = |[waiting]: &[Family; 1]| vec![waiting.with([(["a", "bc"], 1.0), (["ab", "c"], 2.0)])];
        show(&registry, Sheet::new(families, lay_out));
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines, [r#"waiting{lane="a",channel="bc"} 1"#, r#"waiting{lane="ab",channel="c"} 2"#]);
    }
}
