//! Which charts there are, and which results are in them.

use super::dots::{Dots, Group, Row, Section};
use super::growth;
use super::results::{Measured, Point, Results};

/// A chart that has results, and the name of its file.
#[derive(Debug, PartialEq)]
pub(super) struct Plot {
    pub(super) file: &'static str,
    pub(super) svg: String,
}

/// A chart of rows.
struct Chart {
    file: &'static str,
    title: &'static str,
    sections: &'static [Part],
}

/// A section of a chart.
struct Part {
    heading: &'static str,
    unit: &'static str,
    groups: &'static [Select],
}

/// The results in a section: those of a benchmark whose workload begins like this and that have the figure.
struct Select {
    bench: &'static str,
    begins: &'static str,
    /// The start of the name of the workload that is the same for all groups, and is not in their names.
    strips: &'static str,
    figure: &'static str,
    /// The figure by which it is divided.
    per: Option<&'static str>,
    /// Beside a median.
    p99: Option<&'static str>,
    /// The name of the group; empty: the rest of the name of the workload.
    name: &'static str,
    /// The systems; empty: all.
    systems: &'static [&'static str],
}

const ALL: Select =
    Select { bench: "", begins: "", strips: "", figure: "", per: None, p99: None, name: "", systems: &[] };

const fn rates(bench: &'static str, begins: &'static str, figure: &'static str) -> Select {
    Select { bench, begins, strips: begins, figure, ..ALL }
}

const fn times(bench: &'static str, begins: &'static str, p50: &'static str, p99: &'static str) -> Select {
    Select { bench, begins, strips: begins, figure: p50, p99: Some(p99), ..ALL }
}

const MILLIS: &str = " ms";
/// The systems of a summary: Reveille as most use it, and one setting of each peer.
const FEW: &[&str] = &[
    "reveille",
    "reveille, http",
    "reveille, library",
    "reveille, in process",
    "rabbitmq, quorum",
    "pgmq",
    "duroxide-pg",
    "duroxide-pg-opt",
    "graphile_worker",
    "dbos (python)",
    "awa",
];

const CHARTS: &[Chart] = &[
    Chart {
        file: "idle-and-latency.svg",
        title: "Idle load and wake-up latency of Reveille and its peers",
        sections: &[
            Part {
                heading: "Statements per second while nothing happens",
                unit: "",
                groups: &[
                    Select {
                        name: "durable runtime with 4:4 dispatchers",
                        ..few("durable", "idle for", "statements_per_s")
                    },
                    Select {
                        per: Some("seconds"),
                        name: "workers in 10 namespaces",
                        ..few("flow", "idle, 10 namespaces", "statements")
                    },
                    Select {
                        name: "10 000 clients of one queue",
                        ..few("queue", "parked clients, 10000", "statements_per_s")
                    },
                ],
            },
            Part {
                heading: "From the write to the worker that waits for it: median, milliseconds",
                unit: MILLIS,
                groups: &[
                    Select {
                        name: "message: push → waiting consumer",
                        ..few("queue", "latency, push to parked pop, idle", "p50_ms")
                    },
                    Select {
                        name: "orchestration: start → first turn",
                        ..few("durable", "wake across processes", "turn_p50_ms")
                    },
                    Select {
                        name: "task: submit → step has run", ..few("flow", "latency, single step", "ran_p50_ms")
                    },
                ],
            },
        ],
    },
    Chart {
        file: "queue-throughput.svg",
        title: "Message queue: throughput",
        sections: &[Part {
            heading: "Messages per second that were pushed, popped and acked",
            unit: "",
            groups: &[rates("queue", "throughput, ", "per_s")],
        }],
    },
    Chart {
        file: "queue-latency.svg",
        title: "Message queue: latency",
        sections: &[Part {
            heading: "From the push to the consumer that waits for it, milliseconds",
            unit: MILLIS,
            groups: &[times("queue", "latency, push to parked pop, ", "p50_ms", "p99_ms")],
        }],
    },
    Chart {
        file: "durable-throughput.svg",
        title: "Durable provider: throughput",
        sections: &[Part {
            heading: "Orchestrations of five activities per second",
            unit: "",
            groups: &[rates("durable", "fan-out, ", "per_s")],
        }],
    },
    Chart {
        file: "durable-latency.svg",
        title: "Durable provider: latency",
        sections: &[
            Part {
                heading: "From the start to the first turn, across processes, milliseconds",
                unit: MILLIS,
                groups: &[times("durable", "wake across processes", "turn_p50_ms", "turn_p99_ms")],
            },
            Part {
                heading: "A step of a chain of activities, milliseconds",
                unit: MILLIS,
                groups: &[Select { strips: "", ..rates("durable", "chain ", "ms_each") }],
            },
            Part {
                heading: "An orchestration of five activities, 20 in progress, milliseconds",
                unit: MILLIS,
                groups: &[times("durable", "fan-out, ", "p50_ms", "p99_ms")],
            },
        ],
    },
    Chart {
        file: "flow-throughput.svg",
        title: "Task orchestrator: throughput",
        sections: &[
            Part {
                heading: "Steps per second",
                unit: "",
                groups: &[
                    rates("flow", "throughput, ", "steps_per_s"),
                    Select { strips: "", ..rates("flow", "fan-out", "steps_per_s") },
                ],
            },
            Part {
                heading: "Single jobs per second",
                unit: "",
                groups: &[rates("flow", "single-jobs, ", "tasks_per_s")],
            },
        ],
    },
    Chart {
        file: "flow-latency.svg",
        title: "Task orchestrator: latency",
        sections: &[
            Part {
                heading: "From the submission until the end is known, milliseconds",
                unit: MILLIS,
                groups: &[times("flow", "latency, ", "p50_ms", "p99_ms")],
            },
            Part {
                heading: "From the submission until the step has run, milliseconds",
                unit: MILLIS,
                groups: &[rates("flow", "latency, single step", "ran_p50_ms")],
            },
        ],
    },
    Chart {
        file: "wake-latency.svg",
        title: "Wake engine: latency",
        sections: &[Part {
            heading: "From the commit of a job to its claim, milliseconds",
            unit: MILLIS,
            groups: &[times("wake", "commit to claimed, ", "p50_ms", "p99_ms")],
        }],
    },
];

const fn few(bench: &'static str, begins: &'static str, figure: &'static str) -> Select {
    Select { bench, begins, figure, systems: FEW, ..ALL }
}

/// All charts that have results.
pub(super) fn plots(results: &Results) -> Vec<Plot> {
    let mut plots = Vec::new();
    for chart in CHARTS {
        let sections: Vec<Section> = chart.sections.iter().filter_map(|part| part.section(results)).collect();
        if !sections.is_empty() {
            let dots = Dots { title: chart.title.to_owned(), note: chart.note(results, &sections), sections };
            plots.push(Plot { file: chart.file, svg: dots.svg() });
        }
    }
    plots.extend(growth::chart(results).map(|panels| Plot { file: "growth.svg", svg: panels.svg() }));
    plots
}

impl Chart {
    fn note(&self, results: &Results, sections: &[Section]) -> String {
        let mut benches: Vec<&str> = Vec::new();
        for select in self.sections.iter().flat_map(|part| part.groups) {
            if !benches.contains(&select.bench) {
                benches.push(select.bench);
            }
        }
        let rows = || sections.iter().flat_map(|section| &section.groups).flat_map(|group| &group.rows);
        let mut parts = vec![results.setting(&benches)];
        if rows().any(|row| row.point.high > row.point.low) {
            parts.push("Medians of the rounds; whiskers: their range".to_owned());
        }
        if rows().any(|row| row.tail.is_some()) {
            parts.push("Hollow: p99".to_owned());
        }
        parts.retain(|part| !part.is_empty());
        parts.push("How it was measured: docs/benchmarks.md".to_owned());
        parts.join(". ")
    }
}

impl Part {
    fn section(&self, results: &Results) -> Option<Section> {
        let groups: Vec<Group> = self.groups.iter().flat_map(|select| select.groups(results)).collect();
        let heading = self.heading.to_owned();
        (!groups.is_empty()).then_some(Section { heading, unit: self.unit, groups })
    }
}

impl Select {
    fn groups(&self, results: &Results) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for measured in results.of(self.bench).iter().filter(|measured| self.selects(measured)) {
            let Some(row) = self.row(measured) else { continue };
            let rest = measured.workload.strip_prefix(self.strips).unwrap_or(&measured.workload);
            let name = if self.name.is_empty() { rest } else { self.name };
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.rows.push(row),
                None => groups.push(Group { name: name.to_owned(), rows: vec![row] }),
            }
        }
        groups
    }

    fn selects(&self, measured: &Measured) -> bool {
        let is_listed = self.systems.is_empty() || self.systems.contains(&measured.system.as_str());
        is_listed && measured.workload.starts_with(self.begins)
    }

    fn row(&self, measured: &Measured) -> Option<Row> {
        let mut point = measured.point(self.figure)?;
        if let Some(per) = self.per {
            point = Point::times(point, 1.0 / measured.number(per)?);
        }
        let tail = self.p99.and_then(|name| measured.number(name));
        Some(Row { system: measured.system.clone(), point, tail })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of a run lead to the charts of its benchmark and to no other, with Reveille beside its peers; ratios
    /// and failed rounds are not drawn.
    #[test]
    fn results_are_in_their_charts() {
        let mut results = Results::default();
        let lines = [
            r#"{"bench":"queue","workload":"setting","system":"PostgreSQL 15.18","cores":2,"run":"full"}"#,
            r#"{"bench":"queue","workload":"throughput, batch 10, 100 partitions","system":"reveille, http","per_s":8615,"ranges":{"per_s":[8000,9000]}}"#,
            r#"{"bench":"queue","workload":"throughput, batch 10, 100 partitions","system":"pgmq","per_s":9022}"#,
            r#"{"bench":"queue","workload":"throughput, batch 1, 1 partition","system":"pgmq","per_s":null,"failed_rounds":3}"#,
            r#"{"bench":"queue","workload":"throughput, batch 10, 100 partitions, compared within rounds","system":"http over pgmq","ratio":0.95}"#,
            r#"{"bench":"queue","workload":"latency, push to parked pop, idle","system":"reveille, http, two servers","p50_ms":2.0,"p99_ms":7.4}"#,
            r#"{"bench":"queue","workload":"latency, push to parked pop, idle","system":"reveille, http","p50_ms":1.9,"p99_ms":5.7}"#,
        ];
        results.read("test", &lines.join("\n")).unwrap();
        let plots = plots(&results);
        let files: Vec<&str> = plots.iter().map(|plot| plot.file).collect();
        assert_eq!(files, ["idle-and-latency.svg", "queue-throughput.svg", "queue-latency.svg"]);
        let texts: Vec<&str> = plots.iter().map(|plot| plot.svg.as_str()).collect();
        assert!(
            texts[1].contains("batch 10, 100 partitions: reveille, http 8\u{202f}615; pgmq 9\u{202f}022"),
            "{}",
            texts[1]
        );
        assert!(texts[1].contains("whiskers: their range") && !texts[1].contains("over pgmq"), "{}", texts[1]);
        assert!(texts[1].contains("PostgreSQL 15.18, 2 cores"), "{}", texts[1]);
        assert!(!texts[0].contains("two servers") && texts[2].contains("two servers 2 ms, p99 7.4"), "{}", texts[2]);
    }

    /// Without results there is no chart, rather than an empty one.
    #[test]
    fn no_results_are_no_charts() {
        assert_eq!(plots(&Results::default()), []);
    }
}
