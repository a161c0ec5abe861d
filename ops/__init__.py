"""`python -m ops`: what is done by whoever is on call, over the API for signed callers.

It knows the API's description and nothing of the product's code, so that it runs wherever botocore
and click do.

cli           the commands' common options, and where they begin
finding       list, show
mending       retry, cancel, resolve
suppressing   suppress, unsuppress, suppressions
gating        gate show, pause, open
counting      stats, watch
paging        lists that come in pages
timeline      one message's life as lines; pure
printing      tables, moments, JSON; what may stand on a terminal
shell         what all commands share
asking        ids, moments and addresses as they are typed; confirmation
client        one signed request, and what its answer means
connecting    endpoint, region and credentials from the usual variables of AWS
failing       why a command ends, and its exit status
"""
