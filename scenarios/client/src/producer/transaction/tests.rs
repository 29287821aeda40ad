//! The transaction manager, driven by hand as the sender drives it.

use super::reply::decisive;
use super::*;
use crate::flaws::Variant;

const NOW: Instant = Instant::from_nanos(0);

fn manager(variant: Variant) -> TransactionManager {
    let config = ProducerConfig { transactional_id: Some("jt1".to_string()), ..ProducerConfig::jepsen() };
    let mut manager = TransactionManager::new(&config, variant.model());
    let wait = manager.init().unwrap();
    manager.coordinator = Some(1);
    let init = manager.next_request(false).unwrap();
    manager.ended(init, Reply::Producer { code: 0, producer_id: 7, epoch: 0 }, NOW);
    assert_eq!(ended(&wait), Some(Ok(())));
    manager.acknowledge();
    manager
}

fn p(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn ended(wait: &Wait) -> Option<Result<(), Error>> {
    wait.get()
}

/// Takes the next request out and counts it as sent.
fn send(manager: &mut TransactionManager) -> TxnRequest {
    let mut request = manager.next_request(false).expect("a request is due");
    manager.sent(&mut request, NOW);
    request
}

fn answer(manager: &mut TransactionManager, code: i16) -> TxnRequest {
    let request = send(manager);
    let reply = match &request.call {
        Call::FindCoordinator | Call::FindGroupCoordinator(_) => Reply::Coordinator { code, node: 2 },
        Call::InitProducerId { epoch, .. } => Reply::Producer { code, producer_id: 7, epoch: epoch + 1 },
        Call::AddPartitionsToTxn { partitions, .. } => Reply::Partitions(vec![code; partitions.len()]),
        Call::AddOffsetsToTxn { .. } => Reply::Offsets(code),
        Call::TxnOffsetCommit { .. } => Reply::Partitions(vec![code]),
        Call::EndTxn { .. } => Reply::End { code, producer_id: -1, epoch: -1 },
    };
    manager.ended(request.clone(), reply, NOW);
    request
}

fn lose(manager: &mut TransactionManager) -> TxnRequest {
    let request = send(manager);
    manager.ended(request.clone(), Reply::Lost, NOW);
    request
}

/// Begins a transaction that has one partition at the coordinator.
fn begin(manager: &mut TransactionManager) {
    manager.begin().unwrap();
    manager.register(&p(0));
    answer(manager, 0);
    assert!(manager.may_drain(&p(0)));
}

#[test]
fn a_transaction_goes_through_its_states() {
    let mut manager = manager(Variant::Java38);
    assert_eq!(manager.begin(), Ok(1));
    assert!(!manager.may_drain(&p(0)));
    manager.register(&p(0));
    manager.register(&p(1));
    let added = answer(&mut manager, 0);
    let partitions = BTreeSet::from([p(0), p(1)]);
    assert_eq!(added.call, Call::AddPartitionsToTxn { producer_id: 7, epoch: 0, partitions });
    let wait = manager.end(true).unwrap();
    assert_eq!(manager.state, State::Committing);
    assert!(manager.next_request(true).is_none(), "EndTxn waits for the batches");
    answer(&mut manager, 0);
    assert_eq!((ended(&wait), manager.state), (Some(Ok(())), State::Ready));
    manager.acknowledge();
    assert_eq!(manager.begin(), Ok(2));
}

#[test]
fn illegal_calls_are_refused() {
    let mut manager = manager(Variant::Java38);
    let illegal = |result: Result<(), Error>| matches!(result, Err(Error::IllegalState(_)));
    assert!(illegal(manager.init().map(drop)));
    assert!(illegal(manager.end(true).map(drop)));
    assert!(illegal(manager.may_send()));
    manager.begin().unwrap();
    assert!(illegal(manager.begin().map(drop)));
}

#[test]
fn after_a_commit_that_timed_out_only_commit_is_legal() {
    let mut manager = manager(Variant::Java38);
    begin(&mut manager);
    manager.end(true).unwrap();
    // The application gave up waiting, and does not acknowledge.
    assert!(matches!(manager.end(false), Err(Error::IllegalState(_))));
    assert!(matches!(manager.begin(), Err(Error::IllegalState(_))));
    assert!(matches!(manager.may_send(), Err(Error::IllegalState(_))));
    let again = manager.end(true).unwrap();
    let end = answer(&mut manager, 0);
    assert_eq!(end.tries, 1, "calling again does not send again");
    assert_eq!(ended(&again), Some(Ok(())));
}

#[test]
fn an_unanswered_end_is_sent_again_unchanged_after_a_lookup() {
    let mut manager = manager(Variant::Java38);
    begin(&mut manager);
    let wait = manager.end(true).unwrap();
    let first = lose(&mut manager);
    assert_eq!(manager.coordinator, None);
    assert_eq!(answer(&mut manager, 0).call, Call::FindCoordinator);
    assert_eq!(manager.coordinator, Some(2));
    let second = answer(&mut manager, 0);
    assert_eq!((&second.call, second.tries, second.backoff_ms), (&first.call, 2, 100));
    assert_eq!((ended(&wait), manager.state, manager.epoch), (Some(Ok(())), State::Ready, 0));
}

#[test]
fn the_strict_client_bumps_the_epoch_after_a_resent_end() {
    let mut manager = manager(Variant::Strict);
    begin(&mut manager);
    let wait = manager.end(true).unwrap();
    lose(&mut manager);
    answer(&mut manager, 0);
    answer(&mut manager, 0);
    assert_eq!((ended(&wait), manager.state), (None, State::Initializing));
    let bump = answer(&mut manager, 0);
    assert_eq!(bump.call, Call::InitProducerId { producer_id: 7, epoch: 0 });
    assert_eq!((ended(&wait), manager.state, manager.epoch), (Some(Ok(())), State::Ready, 1));
}

#[test]
fn a_committed_transaction_stays_committed_when_the_bump_after_it_fails() {
    let mut manager = manager(Variant::Strict);
    begin(&mut manager);
    let wait = manager.end(true).unwrap();
    lose(&mut manager);
    answer(&mut manager, 0);
    answer(&mut manager, 0);
    answer(&mut manager, codes::PRODUCER_FENCED);
    assert_eq!((ended(&wait), manager.state), (Some(Ok(())), State::FatalError));
    manager.acknowledge();
    assert_eq!(manager.begin(), Err(Error::Fatal(Box::new(Error::ProducerFenced))));
}

#[test]
fn the_strict_client_trusts_a_transaction_without_resends() {
    let mut manager = manager(Variant::Strict);
    manager.begin().unwrap();
    manager.register(&p(0));
    // The previous transaction is still being ended: refused, and no copy is left under way.
    answer(&mut manager, codes::CONCURRENT_TRANSACTIONS);
    assert_eq!(answer(&mut manager, 0).backoff_ms, 20);
    let wait = manager.end(true).unwrap();
    answer(&mut manager, 0);
    assert_eq!((ended(&wait), manager.state), (Some(Ok(())), State::Ready));
}

#[test]
fn the_strict_client_bumps_after_a_batch_of_unknown_outcome() {
    let mut manager = manager(Variant::Strict);
    begin(&mut manager);
    let wait = manager.end(true).unwrap();
    // Java's hole: while completing, a failed batch asks for no new epoch.
    manager.suspect_batch();
    answer(&mut manager, 0);
    assert!(matches!(answer(&mut manager, 0).call, Call::InitProducerId { epoch: 0, .. }));
    assert_eq!((ended(&wait), manager.state, manager.epoch), (Some(Ok(())), State::Ready, 1));
}

/// The markers of a new epoch keep late batches out; those of an `EndTxn` do not.
#[test]
fn the_strict_client_aborts_by_a_new_epoch_after_doubt() {
    for is_known_before in [false, true] {
        let mut manager = manager(Variant::Strict);
        begin(&mut manager);
        let fails = |manager: &mut TransactionManager| {
            manager.suspect_batch();
            manager.batch_failed(&Error::Timeout("delivery"), false);
        };
        if is_known_before {
            fails(&mut manager);
        }
        let wait = manager.end(false).unwrap();
        if !is_known_before {
            fails(&mut manager);
        }
        assert!(manager.next_request(true).is_none(), "it waits for the batches");
        assert_eq!(answer(&mut manager, 0).call, Call::InitProducerId { producer_id: 7, epoch: 0 });
        assert_eq!((ended(&wait), manager.state, manager.epoch), (Some(Ok(())), State::Ready, 1));
        assert!(manager.next_request(false).is_none(), "and sends nothing else");
        manager.acknowledge();
        assert_eq!(manager.begin(), Ok(2));
    }
}

#[test]
fn java_asks_for_no_new_epoch_while_completing() {
    let mut manager = manager(Variant::Java38);
    begin(&mut manager);
    let wait = manager.end(false).unwrap();
    manager.suspect_batch();
    manager.batch_failed(&Error::Timeout("delivery"), false);
    answer(&mut manager, 0);
    assert_eq!((ended(&wait), manager.state, manager.epoch), (Some(Ok(())), State::Ready, 0));
}

#[test]
fn fenced_after_a_resent_end_is_failed_for_java_and_unknown_for_the_strict_client() {
    for (variant, told) in [
        (Variant::Java38, Error::ProducerFenced),
        (Variant::Strict, Error::OutcomeUnknown(Box::new(Error::ProducerFenced))),
    ] {
        let mut manager = manager(variant);
        begin(&mut manager);
        let wait = manager.end(true).unwrap();
        lose(&mut manager);
        answer(&mut manager, 0);
        answer(&mut manager, codes::INVALID_PRODUCER_EPOCH);
        assert_eq!(ended(&wait), Some(Err(told)));
        assert_eq!(manager.state, State::FatalError);
    }
}

#[test]
fn fenced_at_the_first_try_is_failed_for_both() {
    for variant in [Variant::Java38, Variant::Strict] {
        let mut manager = manager(variant);
        begin(&mut manager);
        let wait = manager.end(true).unwrap();
        answer(&mut manager, codes::PRODUCER_FENCED);
        assert_eq!(ended(&wait), Some(Err(Error::ProducerFenced)));
    }
}

#[test]
fn an_end_that_refers_to_an_unknown_producer_is_aborted_with_a_bump() {
    let mut manager = manager(Variant::Java38);
    begin(&mut manager);
    let wait = manager.end(true).unwrap();
    answer(&mut manager, codes::UNKNOWN_PRODUCER_ID);
    assert_eq!(ended(&wait), Some(Err(Error::Kafka(codes::UNKNOWN_PRODUCER_ID))));
    manager.acknowledge();
    let wait = manager.end(false).unwrap();
    assert!(matches!(answer(&mut manager, 0).call, Call::EndTxn { committed: false, epoch: 0, .. }));
    assert!(matches!(answer(&mut manager, 0).call, Call::InitProducerId { epoch: 0, .. }));
    assert_eq!((ended(&wait), manager.state, manager.epoch), (Some(Ok(())), State::Ready, 1));
}

#[test]
fn a_failed_batch_makes_commit_fail_and_abort_bump_the_epoch() {
    let mut manager = manager(Variant::Java38);
    begin(&mut manager);
    manager.batch_failed(&Error::Timeout("delivery"), false);
    let refused = Error::Abortable(Box::new(Error::Timeout("delivery")));
    assert_eq!(manager.end(true).map(drop), Err(refused));
    let wait = manager.end(false).unwrap();
    answer(&mut manager, 0);
    answer(&mut manager, 0);
    assert_eq!((ended(&wait), manager.epoch), (Some(Ok(())), 1));
}

#[test]
fn a_transaction_without_partitions_ends_without_a_request() {
    let mut manager = manager(Variant::Java38);
    manager.begin().unwrap();
    let wait = manager.end(true).unwrap();
    assert!(manager.next_request(false).is_none());
    assert_eq!((ended(&wait), manager.state), (Some(Ok(())), State::Ready));
}

#[test]
fn an_abort_drops_partitions_that_were_not_added() {
    let mut manager = manager(Variant::Java38);
    begin(&mut manager);
    manager.register(&p(1));
    manager.end(false).unwrap();
    assert!(matches!(answer(&mut manager, 0).call, Call::EndTxn { committed: false, .. }));
}

#[test]
fn one_bad_partition_decides_about_the_request() {
    assert_eq!(decisive(Rpc::AddPartitionsToTxn, &[0, 29, 51]), 51);
    assert_eq!(decisive(Rpc::AddPartitionsToTxn, &[0, 55, 0]), 55);
    assert_eq!(decisive(Rpc::AddPartitionsToTxn, &[55, 90]), 90);
    assert_eq!(decisive(Rpc::AddPartitionsToTxn, &[0, 0]), 0);
}

fn offsets() -> GroupOffsets {
    let group = crate::group::GroupMetadata {
        group_id: "g".into(),
        generation_id: 3,
        member_id: "m-1".into(),
        group_instance_id: None,
    };
    GroupOffsets { group, offsets: [(p(0), 5)].into() }
}

#[test]
fn offsets_go_to_the_groups_coordinator_after_the_group_is_in_the_transaction() {
    let mut manager = manager(Variant::Java38);
    manager.begin().unwrap();
    let wait = manager.send_offsets(offsets()).unwrap();
    assert!(matches!(answer(&mut manager, 0).call, Call::AddOffsetsToTxn { producer_id: 7, epoch: 0, .. }));
    assert_eq!(ended(&wait), None);
    // Another agent coordinates the group now: it is looked up, and the coordinator of the transaction is not.
    assert!(matches!(answer(&mut manager, codes::NOT_COORDINATOR).call, Call::TxnOffsetCommit { .. }));
    assert_eq!((manager.coordinator, manager.group_coordinator), (Some(1), None));
    assert_eq!(answer(&mut manager, 0).call, Call::FindGroupCoordinator("g".into()));
    assert_eq!(manager.group_coordinator, Some(2));
    assert!(matches!(answer(&mut manager, 0).call, Call::TxnOffsetCommit { .. }));
    assert_eq!(ended(&wait), Some(Ok(())));
    // The coordinator must hear of the end, though there was no record.
    manager.end(true).unwrap();
    assert!(matches!(answer(&mut manager, 0).call, Call::EndTxn { committed: true, .. }));
}

#[test]
fn a_member_of_an_older_generation_must_abort() {
    for (code, error) in [
        (codes::ILLEGAL_GENERATION, Error::CommitFailed),
        (codes::UNKNOWN_MEMBER_ID, Error::CommitFailed),
        (codes::FENCED_INSTANCE_ID, Error::Kafka(82)),
    ] {
        let mut manager = manager(Variant::Java38);
        manager.begin().unwrap();
        let wait = manager.send_offsets(offsets()).unwrap();
        answer(&mut manager, 0);
        answer(&mut manager, code);
        assert_eq!((ended(&wait), manager.state), (Some(Err(error)), State::AbortableError));
        assert!(manager.end(true).is_err());
        manager.end(false).unwrap();
        assert!(matches!(answer(&mut manager, 0).call, Call::EndTxn { committed: false, .. }));
    }
}

#[test]
fn under_the_second_protocol_offsets_bring_the_group_in_by_themselves() {
    let mut manager = second_protocol();
    manager.send_offsets(offsets()).unwrap();
    assert!(matches!(answer(&mut manager, 0).call, Call::TxnOffsetCommit { .. }));
}

/// A Java 4 producer at a broker that has finalized transaction.version 2, in a transaction with one partition.
fn second_protocol() -> TransactionManager {
    let mut manager = manager(Variant::Java4);
    manager.learn_transaction_version(2);
    manager.begin().unwrap();
    manager.register(&p(0));
    manager
}

/// Answers EndTxn as version 5 does, with a new epoch.
fn answer_end(manager: &mut TransactionManager, epoch: i16) -> TxnRequest {
    let request = send(manager);
    manager.ended(request.clone(), Reply::End { code: 0, producer_id: 7, epoch }, NOW);
    request
}

#[test]
fn under_tv2_batches_go_at_once_and_the_end_brings_the_next_epoch() {
    let mut manager = second_protocol();
    assert!(manager.may_drain(&p(0)) && manager.next_request(false).is_none(), "no AddPartitionsToTxn");
    let wait = manager.end(true).unwrap();
    let end = answer_end(&mut manager, 1);
    assert_eq!(end.call, Call::EndTxn { producer_id: 7, epoch: 0, committed: true });
    assert_eq!((ended(&wait), manager.state, manager.epoch), (Some(Ok(())), State::Ready, 1));
}

#[test]
fn under_tv2_a_resent_end_keeps_its_epoch_and_no_bump_follows() {
    let mut manager = second_protocol();
    let wait = manager.end(true).unwrap();
    let first = lose(&mut manager);
    assert_eq!(answer(&mut manager, 0).call, Call::FindCoordinator);
    assert_eq!(answer_end(&mut manager, 1).call, first.call);
    assert_eq!((ended(&wait), manager.state, manager.epoch), (Some(Ok(())), State::Ready, 1));
    assert!(manager.next_request(false).is_none());
}

#[test]
fn under_tv2_an_abort_after_a_failed_batch_needs_no_bump() {
    let mut manager = second_protocol();
    manager.batch_failed(&Error::Timeout("delivery"), false);
    let wait = manager.end(false).unwrap();
    answer_end(&mut manager, 1);
    assert_eq!((ended(&wait), manager.state, manager.epoch), (Some(Ok(())), State::Ready, 1));
    assert!(manager.next_request(false).is_none());
}

#[test]
fn a_client_of_either_protocol_speaks_the_one_that_both_sides_know() {
    for (variant, finalized, second) in [
        (Variant::Java4, 2, true),
        (Variant::Java4, 1, false),
        (Variant::Java4, 0, false),
        (Variant::Java38, 2, false),
        (Variant::Strict, 2, false),
    ] {
        let mut manager = manager(variant);
        manager.learn_transaction_version(finalized);
        manager.begin().unwrap();
        manager.register(&p(0));
        assert_eq!(manager.next_request(false).is_none(), second, "{variant:?} at {finalized}");
    }
}
