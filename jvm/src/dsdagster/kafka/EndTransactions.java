package dsdagster.kafka;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.internals.AdminApiHandler;
import org.apache.kafka.clients.admin.internals.AdminApiLookupStrategy;
import org.apache.kafka.clients.admin.internals.CoordinatorKey;
import org.apache.kafka.clients.admin.internals.CoordinatorStrategy;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.message.EndTxnRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.EndTxnRequest;
import org.apache.kafka.common.requests.EndTxnResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest.CoordinatorType;
import org.apache.kafka.common.utils.LogContext;

/**
 * Commits prepared transactions at their coordinators, in the name of their producers. A coordinator answers a repeated
 * commit like the first one. Values are empty texts; a transaction that is not the producer's any more fails.
 */
final class EndTransactions implements AdminApiHandler<CoordinatorKey, String> {
  private final Map<CoordinatorKey, Prepared> prepared;
  private final AdminApiLookupStrategy<CoordinatorKey> lookup =
      new CoordinatorStrategy(CoordinatorType.TRANSACTION, new LogContext());

  /** {@code prepared}: by transactional id. */
  EndTransactions(Map<String, Prepared> prepared) {
    this.prepared =
        prepared.entrySet().stream()
            .collect(Collectors.toMap(one -> CoordinatorKey.byTransactionalId(one.getKey()), Map.Entry::getValue));
  }

  Set<CoordinatorKey> keys() {
    return prepared.keySet();
  }

  @Override
  public String apiName() {
    return "endTransactions";
  }

  @Override
  public AdminApiLookupStrategy<CoordinatorKey> lookupStrategy() {
    return lookup;
  }

  @Override
  public Collection<RequestAndKeys<CoordinatorKey>> buildRequest(int broker, Set<CoordinatorKey> keys) {
    List<RequestAndKeys<CoordinatorKey>> requests = new ArrayList<>();
    for (CoordinatorKey key : keys) {
      EndTxnRequestData data =
          new EndTxnRequestData()
              .setTransactionalId(key.idValue)
              .setProducerId(prepared.get(key).producerId())
              .setProducerEpoch(prepared.get(key).producerEpoch())
              .setCommitted(true);
      requests.add(new RequestAndKeys<>(new EndTxnRequest.Builder(data), Set.of(key)));
    }
    return requests;
  }

  @Override
  public ApiResult<CoordinatorKey, String> handleResponse(
      Node broker, Set<CoordinatorKey> keys, AbstractResponse response) {
    CoordinatorKey key = keys.iterator().next();
    Errors error = ((EndTxnResponse) response).error();
    return switch (error) {
      case NONE -> ApiResult.completed(key, "");
      case COORDINATOR_LOAD_IN_PROGRESS, CONCURRENT_TRANSACTIONS -> ApiResult.empty();
      case NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE -> ApiResult.unmapped(List.of(key));
      default -> ApiResult.failed(key, error.exception());
    };
  }
}
