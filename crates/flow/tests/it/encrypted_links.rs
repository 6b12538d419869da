//! RabbitMQ over TLS: steps are delivered, and a server without a trusted certificate is rejected.

use reveille_flow::{Flow, Provider};
use reveille_pg::testing::TestDb;

use crate::providers::{LONG, Queued, Through};
use crate::rabbitmq::Rabbit;

fn through(url: &str, ca: Option<&str>) -> Through {
    Through { provider: Provider::Rabbitmq, amqp_url: Some(url.to_owned()), amqp_ca: ca.map(str::to_owned) }
}

/// The error of using this RabbitMQ, with all causes.
async fn rejection(through: &Through) -> String {
    let db = TestDb::new().await;
    let options = through.options(LONG);
    let flow = Flow::open(db.database().clone(), db.schema().clone(), options).await.expect("open a flow");
    let error = flow.provider(Provider::Rabbitmq).expect("a queue").ready().await.expect_err("refused");
    reveille_pg::causes(&error)
}

/// Steps go through `amqps://` with a configured authority; another authority, another host name, a file without a
/// certificate, and a server without TLS are rejected, with the reason and without the password.
/// One server has a certificate for `localhost` only, of an authority made for it.
#[tokio::test]
async fn rabbitmq_over_tls_needs_a_valid_certificate() {
    let Some(rabbit) = Rabbit::start_with_tls().await else { return };
    let ca = rabbit.ca();
    let trusted = through(&rabbit.url, Some(&ca));
    let flow = Queued::with(&trusted, LONG, "[{name: a}, {name: b, dependencies: [a]}]").await;
    let task = flow.task().await;
    flow.work(&[task]).await;
    assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned()), (1, "complete".to_owned())]);

    let other = rabbit.url.replace("localhost", "127.0.0.1");
    let plain = format!("amqps://guest:guest@localhost:{}/%2f", rabbit.port());
    for (through, why) in [
        (through(&rabbit.url, Some(OTHER_CA)), "UnknownIssuer"),
        (through(&rabbit.url, None), "UnknownIssuer"),
        (through(&other, Some(&ca)), "not valid for name"),
        (through(&rabbit.url, Some("no certificate")), "Could not load any valid certificates"),
        (through(&plain, Some(&ca)), "could not be reached"),
        (through(&plain.replace("amqps", "amqp"), Some(&ca)), "amqp:// has no TLS"),
        (through("amqp:guest:hunter2@localhost", None), "invalid URL"),
    ] {
        let refused = rejection(&through).await;
        assert!(refused.contains(why) && !refused.contains("guest") && !refused.contains("hunter2"), "{refused}");
        assert_eq!(
            refused.contains("is not trusted"),
            why == "UnknownIssuer" || why == "not valid for name",
            "{refused}"
        );
    }
}

/// A certificate of an authority that has signed no server.
const OTHER_CA: &str = include_str!("other_ca.pem");
