"""What breaks only in production, pinned: one rule of the deployment a test."""

from __future__ import annotations

import fnmatch
import re

import pytest

from tests.template import (
    guards_code,
    guards_connections,
    guards_dashboard,
    guards_doors,
    guards_exposure,
    guards_permissions,
    guards_settings,
    guards_triggers,
    guards_watching,
)
from tests.template.deployment import ROOT, Deployment, deployment, source


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    return deployment(source())


def test_every_handler_exists_as_file_and_function(deployed: Deployment) -> None:
    assert guards_code.handlers(deployed) == []


def test_every_function_runs_on_the_chosen_processor(deployed: Deployment) -> None:
    assert guards_code.runtimes(deployed) == []


def test_sql_reaches_migrate_alone_and_all_share_code_and_dependencies(
    deployed: Deployment,
) -> None:
    assert guards_code.layers(deployed) == []


def test_layers_are_built_from_the_right_folders(deployed: Deployment) -> None:
    assert guards_code.layer_sources(deployed) == []


def test_every_function_can_read_its_environment_and_holds_nothing_unread(
    deployed: Deployment,
) -> None:
    assert guards_settings.environments(deployed) == []


def test_the_connections_of_all_functions_fit_into_a_small_server(deployed: Deployment) -> None:
    assert guards_connections.connections(deployed) == []


def test_every_default_of_the_design_stands_in_the_template(deployed: Deployment) -> None:
    assert guards_settings.defaults(deployed) == []


def test_time_rules_hold_for_all_values_that_the_parameters_allow(deployed: Deployment) -> None:
    assert guards_settings.times(deployed) == []


def test_sweep_and_reaper_run_every_minute_and_retention_at_a_quiet_hour(
    deployed: Deployment,
) -> None:
    assert guards_triggers.schedules(deployed) == []


def test_a_queue_waits_for_its_function_and_repeats_only_what_failed(deployed: Deployment) -> None:
    assert guards_triggers.queues(deployed) == []


def test_what_ses_tells_of_our_mail_reaches_the_feedback_queue(deployed: Deployment) -> None:
    assert guards_triggers.events(deployed) == []


def test_schedules_do_not_retry_on_either_layer(deployed: Deployment) -> None:
    assert guards_triggers.retries(deployed) == []


def test_migrations_run_before_new_code_and_on_every_change(deployed: Deployment) -> None:
    assert guards_triggers.migrations(deployed) == []


def test_secrets_are_generated_and_valid_from_the_first_deploy(deployed: Deployment) -> None:
    assert guards_settings.secrets(deployed) == []


def test_each_role_may_do_exactly_what_the_table_says(deployed: Deployment) -> None:
    assert guards_permissions.permissions(deployed) == []


def test_each_function_has_a_role_of_its_own_that_lambda_alone_takes_on(
    deployed: Deployment,
) -> None:
    assert guards_permissions.roles(deployed) == []


def test_only_sweep_and_doorbell_may_send_and_only_from_the_configured_address(
    deployed: Deployment,
) -> None:
    assert guards_permissions.senders(deployed) == []


def test_the_stack_is_made_of_kinds_that_a_guard_looks_at(deployed: Deployment) -> None:
    assert guards_doors.kinds(deployed) == []


def test_nobody_but_our_api_may_call_a_function(deployed: Deployment) -> None:
    assert guards_doors.invokers(deployed) == []


def test_the_bucket_s_policy_lets_nobody_in(deployed: Deployment) -> None:
    assert guards_doors.grants(deployed) == []


def test_no_permission_holds_a_wildcard_beyond_the_list(deployed: Deployment) -> None:
    assert guards_permissions.wildcards(deployed) == []


def test_only_the_listed_routes_are_public(deployed: Deployment) -> None:
    assert guards_exposure.routes(deployed) == []


def test_cors_is_a_literal_list_of_one_origin(deployed: Deployment) -> None:
    assert guards_exposure.cors(deployed) == []


def test_every_route_is_throttled_and_the_api_logs_neither_path_nor_address(
    deployed: Deployment,
) -> None:
    assert guards_exposure.stage(deployed) == []


def test_the_bucket_is_private_versioned_kept_and_tls_only(deployed: Deployment) -> None:
    assert guards_exposure.bucket(deployed) == []


def test_queues_are_encrypted_and_dead_letters_kept(deployed: Deployment) -> None:
    assert guards_exposure.queues(deployed) == []


def test_links_in_mails_are_not_tracked(deployed: Deployment) -> None:
    assert guards_exposure.tracking(deployed) == []


def test_every_function_has_a_log_group_that_forgets(deployed: Deployment) -> None:
    assert guards_watching.logs(deployed) == []


def test_all_functions_follow_the_vpc_parameters(deployed: Deployment) -> None:
    assert guards_exposure.network(deployed) == []


def test_each_alarm_watches_the_metric_it_names(deployed: Deployment) -> None:
    assert guards_watching.alarms(deployed) == []


def test_alarms_watch_no_metric_that_the_code_does_not_emit(deployed: Deployment) -> None:
    assert guards_watching.custom_metrics(deployed) == []


def test_the_dashboard_shows_no_metric_that_nobody_emits(deployed: Deployment) -> None:
    assert guards_dashboard.dashboard_metrics(deployed) == []
    assert guards_dashboard.dashboard_expressions(deployed) == []


def test_the_dashboard_answers_what_it_must_and_shows_every_alarm(deployed: Deployment) -> None:
    assert guards_dashboard.dashboard_answers(deployed) == []


def test_no_widget_lies_over_another(deployed: Deployment) -> None:
    assert guards_dashboard.dashboard_places(deployed) == []


def test_every_parameter_is_described_grouped_and_bounded(deployed: Deployment) -> None:
    assert guards_watching.parameters(deployed) == []


def test_an_identity_is_made_when_asked_for_and_stays(deployed: Deployment) -> None:
    assert guards_watching.identity(deployed) == []


def test_the_outputs_say_what_comes_next(deployed: Deployment) -> None:
    assert guards_watching.outputs(deployed) == []


def test_rules_use_only_what_cloudformation_understands_there(deployed: Deployment) -> None:
    assert guards_watching.rules(deployed) == []


def test_the_guide_tells_the_limits_of_routes() -> None:
    guide = (ROOT / "docs" / "http-api.md").read_text("utf-8")
    rows = re.findall(r"^\| `([A-Z]+ /\S*)` \| (\d+) \| (\d+) \|$", guide, re.MULTILINE)
    told = {route: (int(rate), int(burst)) for route, rate, burst in rows}
    assert told == guards_exposure.LIMITS


def test_whole_addresses_are_a_permission_of_their_own() -> None:
    """The guide's denial covers that one route of all, and the grant beside it covers it too."""
    guide = (ROOT / "docs" / "http-api.md").read_text("utf-8")
    [denied] = re.findall(r'"Deny", .*"Resource": "([^"]+)"', guide)
    granted = denied.removesuffix("/recipients")
    named = {
        f"arn:aws:execute-api:REGION:ACCOUNT:API/$default/{method.upper()}"
        + path.replace("{id}", "evt_1")
        for path, method, _ in guards_exposure.SIGNED_ROUTES
    }
    assert {name for name in named if fnmatch.fnmatchcase(name, denied)} == {
        "arn:aws:execute-api:REGION:ACCOUNT:API/$default/GET/v1/messages/evt_1/recipients"
    }
    assert len({name for name in named if fnmatch.fnmatchcase(name, granted)}) == 2
